package command

import (
	"context"
	"errors"
	"time"
)

// Control asks something of a command. The same message passes all hops, and each knows the next one: the server
// that got the request, the replica that runs the execution, the supervisor of the command, and the Job, which does
// what is asked. Members and operations may be added to its JSON form. A hop that does not know an operation refuses
// it, so older servers and supervisors are understood, and newer ones get an error for what they cannot have.
type Control struct {
	Op Op `json:"op"`
	// Signal is the name of a signal, for OpSignal.
	Signal string `json:"signal,omitempty"`
	// Size is for OpResize.
	Size *Size `json:"size,omitempty"`
	// Stdin is for OpStdin and OpStdinOf.
	Stdin *Piece `json:"stdin,omitempty"`
	// Verdict is for OpStop.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// Op is the operation of a Control.
type Op string

// The operations.
const (
	// OpStop ends the command. The first Verdict counts, so it may be repeated.
	OpStop Op = "stop"
	// OpSignal sends a signal to the process group of the command.
	OpSignal Op = "signal"
	// OpResize sets the size of the terminal.
	OpResize Op = "resize"
	// OpStdin gives the command a Piece of its stdin, as much as it takes for now. It is answered by Taken.
	OpStdin Op = "stdin"
	// OpStdinOf is OpStdin by a named writer, which a supervisor that knows no writers must not take for the former.
	OpStdinOf Op = "stdin_of"
)

// Piece is a part of what is written to the stdin of a command.
type Piece struct {
	// Offset is where Data begins in all that the command is given, or in what Writer gives it. Bytes before the
	// accepted offset are passed over as duplicates. -1 is the accepted offset.
	Offset int64 `json:"offset"`
	// Exact refuses the piece if Offset is below the accepted one, too.
	Exact bool `json:"exact,omitempty"`
	// Writer, if not "", names one of several writers. The newest 256 are remembered.
	Writer string `json:"writer,omitempty"`
	// Data is nil if there is nothing to write.
	Data []byte `json:"data"`
	// EOF closes stdin after Data.
	EOF bool `json:"eof,omitempty"`
}

// Give returns the Control that gives a command a piece.
func Give(p *Piece) *Control {
	if p.Writer != "" {
		return &Control{Op: OpStdinOf, Stdin: p}
	}
	return &Control{Op: OpStdin, Stdin: p}
}

// Stdin is the state of the stdin of a command.
type Stdin struct {
	// Offset is the number of bytes written to the command, by the named writer if the piece named one.
	Offset int64 `json:"offset"`
	Open   bool  `json:"open"`
}

// Taken is the answer to a Piece.
type Taken struct {
	Stdin
	// Took is the number of bytes of the piece that were written, or skipped as duplicates.
	Took int `json:"took"`
	// Again is true if the command has not read the rest of the piece yet.
	Again bool `json:"again,omitempty"`
}

// PiecePatience limits how long a Job waits for the command to read a piece, before it reports the progress.
const PiecePatience = 3 * time.Second

// errPause is the cause of the end of that time.
var errPause = errors.New("it takes longer")

// Control does what a Control asks for. Only a piece of stdin is answered, also if it is refused, and waits until the
// command has been started.
func (j *Job) Control(ctx context.Context, c *Control) (*Taken, error) {
	switch {
	case c.Op == OpStop && c.Verdict != nil:
		j.Stop(*c.Verdict)
		return nil, nil
	case c.Op == OpSignal:
		return nil, j.signal(c.Signal)
	case c.Op == OpResize && c.Size != nil:
		return nil, j.resize(c.Size)
	case (c.Op == OpStdin || c.Op == OpStdinOf) && c.Stdin != nil:
		return j.give(ctx, c.Stdin)
	}
	return nil, c.Unknown()
}

// Unknown is the refusal of a Control whose operation is not known, or lacks a member.
func (c *Control) Unknown() error {
	return refuse(Unknown, "this server does not know the request %q", c.Op)
}

// give writes a piece to the stdin of the command.
func (j *Job) give(ctx context.Context, p *Piece) (*Taken, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, PiecePatience, errPause)
	defer cancel()
	took, err := j.writeStdin(ctx, p)
	t := &Taken{Stdin: j.stdin.state(p.Writer), Took: took}
	if errors.Is(err, errPause) {
		t.Again, err = true, nil
	}
	return t, err
}

func (j *Job) writeStdin(ctx context.Context, p *Piece) (took int, err error) {
	if !j.stdin.wanted {
		return 0, ErrStdinNotOpened
	}
	select {
	case j.stdin.turn <- struct{}{}:
	case <-j.over:
		return 0, ErrHasEnded
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-j.stdin.turn }()
	return j.stdin.write(ctx, p)
}
