// Package bench measures the performance targets of Reprise, each beside a limit:
// a small program that does nothing but the work which cannot be avoided. Programs
// of others that do the same work run beside them as peers.
//
// A Race is what is measured together. Its contenders take turns in laps, so
// that a machine that is slow for a while is slow for all of them, and only the
// ratios of one lap are compared. Servers run in processes of their own.
package bench
