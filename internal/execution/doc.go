// Package execution runs commands and keeps their output as streams of a
// reprise.Log, so that whoever started a command can lose the connection and come back.
//
//	host, err := execution.Open(ctx, log, nil)
//	x, created, err := host.Start(ctx, reprise.DefaultTenant, execution.Request{
//		ID:      "build-42",
//		Command: "make test",
//	})
//	stream, err := host.Stream(ctx, reprise.DefaultTenant, x.ID)
//
// # An execution is a stream
//
// An execution is the stream "execution:<id>", and nothing about it is kept elsewhere. Its
// configuration is the request, or as much of it as may be shown, with a digest
// of all of it. So the rule that a stream is created once, and that another configuration under
// the same name is a conflict, is what makes starting idempotent. Its events are:
//
//	started  what runs, with which process id and isolation; not there if nothing could be started
//	stdout   a chunk of bytes as it was read, at most 32 KiB
//	stderr   likewise
//	end      why it ended (Outcome), how (exit code or signal), and what it used
//
// A request with a Key in place of an ID finds the execution that stands for the key, or starts another one once
// that has failed; see docs/operations.md.
//
// Every execution gets exactly one end. One that was running when its server died and that nobody can find again gets
// it, as Lost, when a Host is opened again, or from another replica.
//
// # Output
//
// Output is bytes. Nothing looks for lines, and the only thing that is known of text is
// that a rune is not split over two events: its beginning is held back for at most half a second.
// What is read while an append is under way goes into the next one together, so
// that a chatty command does not wait for each of its lines to be made durable. At
// most 2 MiB wait; then the pipes are read no further and the command waits
// too. A store that fails is tried again for as long as it takes. Appends are
// those of an idempotent producer, so that none is doubled whose answer was lost.
//
// # Processes
//
// A command gets a session of its own, a few variables of our environment, and no
// descriptor but its three. Where the cgroup v2 tree can be written it gets a cgroup; elsewhere its
// processes are found in /proc by session, descent, and a mark in their environment.
// Either way it ends as a whole: TERM and then KILL reach children in other
// sessions too, and when the command has ended nothing that it started goes on. A child that
// holds the output open delays the end by Options.DrainTimeout at most.
//
// Without Options.RunsDir commands are children of our own process: if it dies, the kernel kills the command, and the
// next Host kills what else is left of its tree.
//
// # Supervisors
//
// With Options.RunsDir each command is run by a process of its own, a supervisor, which is this very program, started
// again. It owns the pipes or the terminal, holds timeouts and limits, adopts every orphan of the tree, and writes
// output to a spool on disk (package supervisor). The Host follows the spool into the stream: frame n becomes event n,
// so that the tail of the stream says what it has. Host.Leave, or the death of our process, leaves commands running,
// and the next Host takes them up. See docs/executions.md.
//
// The code that runs a command (job, and what it consists of: child, tree, pump, spool, stdin, meter) is the same in
// both cases. session is a job in a supervisor, remote is a supervisor as its Host knows it.
//
// # Replicas
//
// With Options.Replica several Hosts share the executions in one store. Each runs what was started
// at it, as the owner of the stream (reprise.Owner); any of them shows, controls and removes what
// another one runs, by asking it. When a replica dies, the others end its executions as Lost; when it was only
// slow, the store refuses what it appends and it kills what it runs. See docs/replicas.md.
//
// # Other systems
//
// On macOS and the BSDs a command is a child of this process, in a process group of its own, by which it is
// ended. Requests with limits on memory, processes or CPU time are refused, and a command goes on when this process is
// killed. On Windows the package builds, for programs that are clients too, and every run ends as
// failed_to_start.
package execution
