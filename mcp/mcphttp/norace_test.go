//go:build !race

package mcphttp_test

// abandoned is how many sessions are abandoned.
const abandoned = 10_000
