//go:build !race

package api_test

// raced tells that the race detector is on, which blurs times.
const raced = false
