// Package linear contains only tests. They check that histories of concurrent calls to streams of a Log are
// linearizable: some order of the calls explains the results, in which each call takes effect
// at one moment between its beginning and its end. Porcupine searches for that order in
// recorded histories.
package linear
