// Package bench measures the performance targets of Reprise. Each is measured beside a limit, a small program that does
// only the unavoidable work. Programs of other projects that do the same work run beside them as peers.
//
// A Race is a set of contenders that are measured together. They take turns in laps, so that a slow phase of the
// machine affects all of them, and only the ratios within one lap are compared. Servers run in processes of their own.
package bench
