//go:build race

package mcphttp_test

// abandoned is how many sessions are abandoned; each takes ten times as long here.
const abandoned = 1000

// finished is how many calls are made whose cost is measured, where nothing else is said.
const finished = 10_000
