//go:build !race

package storewrap_test

const raceDetector = false
