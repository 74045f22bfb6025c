//go:build race

package execution_test

// raced: the race detector is on, with which drawing takes ten times as long.
const raced = true
