// Package command runs a command: its process, the tree of all processes that it starts, its pipes or terminal, and its
// limits. It knows nothing of streams, and nothing of who has asked for the command.
//
//	s := command.System{Spawner: spawn.New()}
//	job := command.NewJob(plan.StdinOpen, plan.TTY != nil, command.NewDecision())
//	ending := job.Run(&s, plan, &command.Output{Most: 2 << 20, Write: write})
//
// A server runs a Job itself, or passes the Plan to a supervisor, which does. Both ask the Job for what people ask of a
// command: a signal, another size of its terminal, and input. A Decision says when it is to end, and why.
//
// # Processes
//
// A command gets its own session, the environment of its plan, and no descriptors except the standard three. It gets a
// cgroup if the cgroup v2 tree is writable. Otherwise its processes are found as descendants of a supervisor that
// adopts every orphan, or in /proc by session, descent, and a mark in their environment. In all cases the whole tree
// ends: TERM and then KILL also reach children in other sessions, and no child outlives the command. A child that holds
// the output open delays the end by at most Plan.Drain.
//
// # Output
//
// Output consists of bytes and is not split at lines. The only rule for text is that a rune is not split over two
// chunks: its beginning is held back for at most half a second. Chunks that are read during a Write go into the next
// Write together. While Output.Most bytes wait, the pipes are not read, and the command waits.
//
// # Other systems
//
// On macOS and the BSDs a command is ended by its process group, and limits on memory, processes and CPU time are not
// held. On Windows the package builds, and every command ends as FailedToStart.
package command
