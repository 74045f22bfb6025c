package execution

import (
	"context"
	"errors"
	"fmt"
	"io"

	"reprise"
	"reprise/internal/execution/command"
)

// StdinWrite is data for the stdin of an execution.
type StdinWrite struct {
	// Offset is where Data begins in all that the command is given, the stdin of the
	// request included. Bytes before the accepted offset are passed over as duplicates, so
	// a write can be sent again. -1 is the accepted offset.
	Offset int64
	// Writer, if not "", names one of several writers. Offset then counts only the bytes of this writer and is not
	// negative, so that each writer can retry its writes independently of the others. The newest 256 writers are
	// remembered.
	Writer string
	// Data may be nil. It is read to its end, or to an error.
	Data io.Reader
	// EOF closes stdin after Data.
	EOF bool
}

// Stdin is the state of the stdin of an execution.
type Stdin = command.Stdin

// pieceBytes is the number of bytes of stdin in one Control. The encoding adds a third.
const pieceBytes = 256 << 10

// stdinWriter writes to the stdin of a command in pieces, wherever it runs.
type stdinWriter struct {
	to    hop
	state Stdin // as the command's owner has told last
}

// write does one StdinWrite.
func (f *stdinWriter) write(ctx context.Context, w StdinWrite) error {
	if w.Data == nil {
		_, err := f.send(ctx, &command.Piece{Offset: w.Offset, Writer: w.Writer, EOF: w.EOF})
		return err
	}
	at := command.Piece{Offset: w.Offset, Writer: w.Writer}
	buf := make([]byte, pieceBytes)
	sent := false
	for {
		n, err := w.Data.Read(buf) // a single read, since the source may be a person who types
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return fmt.Errorf("%w: stdin: %w", reprise.ErrInvalid, err)
		}
		if n > 0 || !sent { // the first goes in any case: it is checked by the owner
			if err := f.piece(ctx, &at, buf[:n]); err != nil {
				return err
			}
			sent = true
		}
		if last {
			break
		}
	}
	if !w.EOF {
		return nil
	}
	at.Data, at.EOF = nil, true
	given := f.state.Offset
	_, err := f.send(ctx, &at)
	if errors.Is(err, reprise.ErrEnded) { // the command has taken everything and has ended: its stdin is closed
		f.state = Stdin{Offset: given}
		return nil
	}
	return err
}

// piece sends a piece until the command has accepted all of it, and advances at.
func (f *stdinWriter) piece(ctx context.Context, at *command.Piece, data []byte) error {
	for {
		at.Data = data
		t, err := f.send(ctx, at)
		if err != nil {
			return err
		}
		if at.Offset < 0 {
			// The next piece must continue exactly here. If another writer has written there, the piece would be
			// skipped as a duplicate and be lost silently.
			at.Offset, at.Exact = t.Offset, true
		} else {
			at.Offset += int64(t.Took)
		}
		if data = data[t.Took:]; !t.Again {
			return nil
		}
	}
}

// send sends a piece once. While the command does not read it, the piece is sent again.
func (f *stdinWriter) send(ctx context.Context, p *command.Piece) (*command.Taken, error) {
	for {
		t, err := f.to.Control(ctx, command.Give(p))
		if t != nil {
			f.state = t.Stdin
		}
		switch {
		case err != nil:
			return nil, err
		case t.Again && t.Took == 0:
			continue
		}
		return t, nil
	}
}
