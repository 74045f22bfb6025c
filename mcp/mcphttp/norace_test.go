//go:build !race

package mcphttp_test

// abandoned is how many sessions are abandoned.
const abandoned = 10_000

// finished is how many calls are made whose cost is measured, where nothing else is said.
const finished = 100_000
