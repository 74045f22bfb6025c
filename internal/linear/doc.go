// Package linear contains only tests. They check that histories of concurrent calls to streams of a Log are
// linearizable: that the results are explained by some order of the calls in which each call takes effect at one moment
// between its start and its end. Porcupine searches recorded histories for that order.
package linear
