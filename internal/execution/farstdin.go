package execution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"reprise"
)

const (
	// pieceBytes is the number of bytes of stdin in one message to another replica. The encoding adds a third.
	pieceBytes = 256 << 10
	// piecePatience limits how long the owner waits for the command to read a piece, before it reports the progress.
	piecePatience = 3 * time.Second
)

// farStdin writes to the stdin of a command that another replica runs, or a supervisor.
type farStdin struct {
	// ask gives the owner of the command a piece.
	ask   func(context.Context, *askStdin) (*toldStdin, error)
	state Stdin // as the owner has told last
}

// stdinAt asks another replica.
func (h *Host) stdinAt(
	owner string, tenant reprise.Tenant, id string,
) func(context.Context, *askStdin) (*toldStdin, error) {
	return func(ctx context.Context, a *askStdin) (*toldStdin, error) {
		op := opStdin
		if a.Writer != "" {
			op = opStdinOf
		}
		t, err := h.ask(ctx, owner, ask{Op: op, Tenant: tenant, ID: id, Stdin: a})
		if err == nil && t.Stdin == nil {
			err = fmt.Errorf("replica %s answers with something that cannot be", owner)
		}
		return t.Stdin, err
	}
}

// write does one StdinWrite, in pieces.
func (f *farStdin) write(ctx context.Context, w StdinWrite) (Stdin, error) {
	if w.Data == nil {
		_, err := f.send(ctx, &askStdin{Offset: w.Offset, Writer: w.Writer, EOF: w.EOF})
		return f.state, err
	}
	at := askStdin{Offset: w.Offset, Writer: w.Writer}
	buf := make([]byte, pieceBytes)
	sent := false
	for {
		n, err := w.Data.Read(buf) // a single read, since the source may be a person who types
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return f.state, fmt.Errorf("%w: stdin: %w", reprise.ErrInvalid, err)
		}
		if n > 0 || !sent { // the first goes in any case: it is checked by the owner
			if err := f.piece(ctx, &at, buf[:n]); err != nil {
				return f.state, err
			}
			sent = true
		}
		if last {
			break
		}
	}
	if !w.EOF {
		return f.state, nil
	}
	at.Data, at.EOF = nil, true
	given := f.state.Offset
	_, err := f.send(ctx, &at)
	if errors.Is(err, reprise.ErrEnded) { // the command has taken everything and has ended: its stdin is closed
		return Stdin{Offset: given}, nil
	}
	return f.state, err
}

// piece sends a piece until the command has accepted all of it, and advances at.
func (f *farStdin) piece(ctx context.Context, at *askStdin, data []byte) error {
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

// send asks the owner once. For as long as the command does not read it has the owner ask again.
func (f *farStdin) send(ctx context.Context, a *askStdin) (*toldStdin, error) {
	for {
		t, err := f.ask(ctx, a)
		switch {
		case err != nil:
			return nil, err
		case t.Took < 0 || t.Took > len(a.Data):
			return nil, errors.New("the owner of the command answers with something that cannot be")
		}
		f.state = t.Stdin
		switch {
		case t.Refused != nil:
			return nil, *t.Refused
		case t.Again && t.Took == 0:
			continue
		}
		return t, nil
	}
}
