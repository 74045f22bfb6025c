// Package supervisor is what a server and the process that owns a command have in common: the directory of a run, the
// spool in it, and the socket over which they speak. It knows nothing of streams or of how commands are run.
//
// # The directory of a run
//
//	lock        flocked by the supervisor for as long as it lives; its first line is the path of the supervisor's
//	            cgroup, and what follows is its trace if it crashed
//	run.json    what the server has to know again after a restart
//	sock        the Unix socket of the supervisor, mode 0600
//	*.spool     segments of the spool, named by the index of their first frame
//	shift       how far frames and events are apart, once a store has lost events or a spool frames
//	end.json    how the command ended
//
// # The spool, version 1
//
// A spool is a sequence of frames, numbered from 1 on, in segments of about 8 MiB. All numbers are little-endian. A
// segment begins with
//
//	offset  bytes
//	0       8      "REPSPOOL"
//	8       4      version, 1
//	12      4      zero
//
// and then holds frames:
//
//	0       4      n, the length of the data, at most 1 MiB
//	4       4      CRC-32C of all that follows
//	8       8      index
//	16      8      time, in nanoseconds since 1970 UTC
//	24      8      bytes of stdout in all frames before
//	32      8      bytes of stderr in all frames before
//	40      1      kind: 1 started, 2 stdout, 3 stderr
//	41      7      zero
//	48      n      data
//
// A frame is never changed once it is written. The last one may be cut short where the supervisor was killed. A reader
// that meets a frame it cannot read looks for the next one whose checksum holds, and says how many it has passed over.
//
// Nothing is synced: a spool outlives its server, and not its machine.
//
// # The socket, version 1
//
// Both sides send JSON values, one a line. The server begins with {"version":1,"secret":"..."}; the supervisor answers
// {"version":1} or {"error":"..."} and closes. What follows is the business of package execution. The supervisor
// answers with the lower of both versions, which both sides then speak.
package supervisor
