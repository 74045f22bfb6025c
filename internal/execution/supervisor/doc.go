// Package supervisor is the process that owns a command and outlives its server, and what a server shares with it: the
// directory of a run, the spool in it, and the socket over which they communicate. It knows nothing of streams.
//
// A server has a Pool of supervisors, and gives one an Order with the plan of a command. A Link brings the News of the
// command; its output is in the spool, which a Reader reads. A Remote reaches a supervisor that another server has
// started, too. In the supervisor, owner takes one order after the other, and session is one run: a command.Job whose
// output a Writer writes to the spool.
//
// # The directory of a run
//
//	lock        flocked by the supervisor for as long as it lives; its first line is the path of the supervisor's
//	            cgroup, followed by its trace if it crashed
//	run.json    what the server has to know again after a restart
//	sock        the Unix socket of the supervisor, mode 0600
//	*.spool     segments of the spool, named by the index of their first frame
//	shift       the difference between the numbers of frames and events, after a loss of either
//	end.json    how the command ended
//
// A supervisor without a command keeps a directory for its next run next to them, "spare-" and a random name: locked,
// with an empty lock file, a socket on which no process accepts, and an empty first segment. A server gives it the name
// of the run and then the command to the supervisor, which writes to the lock file before it starts the command. After
// a short run with little output the supervisor empties the files and gives the directory its old name.
//
// # The spool, version 1
//
// A spool is a sequence of frames, numbered from 1 on, in segments of about 8 MiB. All numbers are little-endian. A
// segment begins with
//
//	offset  bytes
//	0       8      "REPSPOOL"
//	8       4      version, 1
//	12      4      CRC-32C of the name of the run's directory, not 0; zero in older segments. A segment of another
//	               run is ignored: a crash of the machine may bring back what an earlier run had in the file
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
// A written frame is never changed. The last one may be incomplete if the supervisor was killed. A reader that finds an
// unreadable frame continues at the next one with a valid checksum and reports how many frames it has skipped.
//
// Nothing is synced: a spool survives its server, but not a crash of the machine.
//
// # The socket, version 1
//
// Both sides send JSON values, one a line. The server begins with {"version":1,"secret":"...","run":"..."}; the
// supervisor answers {"version":1} or {"error":"..."} and closes. It refuses a server that names another run than it
// has, because its socket serves one run after the other; servers that name none are older. The supervisor answers with
// the lower of both versions, which both sides then use.
//
// A call that follows is a command.Control, which is answered once, or one of these: "status" is answered with the news
// once, "follow" with news whenever there are some, and "ack" (of the frames that are kept elsewhere) and "forget" (of
// a run whose end is) are not answered.
//
// The server that has started the supervisor follows the command over the supervisor's stdin, without a hello: both are
// the same program.
package supervisor
