// Package execution runs commands and keeps their output as streams of a reprise.Log, so that a client can lose the
// connection and resume.
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
// An execution is the stream "execution:<id>" and has no other state. The configuration of the stream is the public
// part of the request, with a digest of the whole request. A stream is created once, and a different configuration
// under the same name is a conflict: this makes starts idempotent. The events are:
//
//	started  the command, its process id and its isolation; missing if nothing could be started
//	stdout   a chunk of bytes as it was read, at most 32 KiB
//	stderr   likewise
//	end      why it ended (Outcome), how (exit code or signal), and what it used
//
// A request with a Key in place of an ID finds the current execution of the key, or starts another one once that has
// failed; see docs/operations.md.
//
// Every execution gets exactly one end. If its server died while it was running and no server can find the command
// again, the end is Lost. It is appended when a Host is opened again, or by another replica.
//
// # Output
//
// Package command runs a command and cuts its output into the chunks that become events. Output that is read during an
// append goes into the next append together, so that a command with many short lines does not wait for each line to
// become durable. At most 2 MiB wait; above that the command waits. A failing store is retried without limit. Appends
// use an idempotent producer, so that an append whose answer was lost is not repeated.
//
// Without Options.RunsDir, commands are children of our process: if it dies, the kernel kills the command, and the next
// Host kills the rest of its tree.
//
// # Supervisors
//
// With Options.RunsDir, each command is run by a separate process, a supervisor, which is another instance of this
// program. The supervisor owns the pipes or the terminal, enforces timeouts and limits, adopts every orphan of the
// tree, and writes output to a spool on disk (package supervisor). The Host copies the spool into the stream: frame n
// becomes event n, so that the tail of the stream shows how far the copy has got. After Host.Leave, or the death of our
// process, commands continue, and the next Host adopts them. See docs/internals/executions.md.
//
// A command.Job runs the command in both cases. A request to a command, such as a signal, is one message, a
// command.Control, which passes each hop between the caller of Host and the Job: the replica that runs the execution,
// and the supervisor.
//
// # Interpreters
//
// A command may have a Driver (package interpreter), which gives it code and finds the output of each piece in its own.
// Code is an execution inside another one. Package language names the programs that run code.
//
// # Replicas
//
// With Options.Replica, several Hosts share the executions in one store. Each Host runs the executions that were
// started at it, as the owner of their streams (reprise.Owner). Each Host can show, control and remove the executions
// of the others, by a request to their owner. When a replica dies, the others end its executions as Lost. If it was
// only slow, the store refuses its appends, and it kills its commands. See docs/replicas.md.
//
// # Other systems
//
// On macOS and the BSDs a command is a child of this process and is ended by its process group. Requests with limits on
// memory, processes or CPU time are refused, and a command continues if this process is killed. On Windows the package
// builds, for programs that are clients too, and every run ends as failed_to_start.
package execution
