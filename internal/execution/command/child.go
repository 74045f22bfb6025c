package command

import (
	"os"
	"time"
)

// child is a process with the near ends of its pipes. It is the boundary to the process: a job knows a child by its
// pipes, its tree and its exit, and not how it was started.
type child struct {
	process *os.Process
	started time.Time
	tree    tree
	// stdin is nil for a command without stdin. In a terminal, stdin and stdout are the same file and stderr is nil.
	stdin, stdout, stderr *os.File
}

// exit is how a process ended.
type exit struct {
	code   *int
	signal *string
	usage  Usage
}

// close frees the near ends.
func (c *child) close() { closeAll(c.stdin, c.stdout, c.stderr) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
