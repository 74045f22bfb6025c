//go:build race

package sim

// raceDetector makes a seed take about five times as long.
const raceDetector = true
