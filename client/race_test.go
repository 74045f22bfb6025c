//go:build race

package client_test

// race makes the exhaustive tests take fewer steps: the detector costs them a factor of eight.
const race = true
