//go:build race

package storewrap_test

// raceDetector slows down SQLite, which is C translated to Go, about tenfold.
const raceDetector = true
