//go:build !race

package storetest

// raceDetector says that everything takes some ten times as long.
const raceDetector = false
