package command

import "time"

// Kind is what a Chunk contains. The numbers are those in a spool on disk.
type Kind byte

// The kinds of chunks.
const (
	// Started describes the command and its process as JSON. It comes first.
	Started Kind = 1
	Stdout  Kind = 2
	Stderr  Kind = 3
)

// Chunk is a piece of the output of a command: at most 32 KiB of one channel, as it was read.
type Chunk struct {
	Time time.Time
	Kind Kind
	Data []byte
}
