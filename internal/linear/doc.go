// Package linear holds no code but tests: what concurrent callers see of a stream
// through a Log must be explained by some order of their calls, in which each has its effect
// at one moment between its beginning and its end. Porcupine looks for that order in
// recorded histories.
package linear
