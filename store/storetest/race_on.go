//go:build race

package storetest

// raceDetector is true if the program runs under the race detector, which makes everything about ten times slower.
const raceDetector = true
