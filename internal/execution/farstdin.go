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
	// pieceBytes is how much stdin is sent to another replica at a time. In an ask it takes a third more.
	pieceBytes = 256 << 10
	// piecePatience is how long a piece waits at the owner for the command to read it, before the answer says how far
	// it is.
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
			err = fmt.Errorf("replica %s answers what cannot be", owner)
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
		n, err := w.Data.Read(buf) // no more, for somebody may be typing
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

// piece sends a piece until the command has taken all of it, and moves at behind it.
func (f *farStdin) piece(ctx context.Context, at *askStdin, data []byte) error {
	for {
		at.Data = data
		t, err := f.send(ctx, at)
		if err != nil {
			return err
		}
		if at.Offset < 0 {
			// What follows must be given right behind this. Were it taken for a duplicate of
			// what another writer has written there, it would be lost in silence.
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
			return nil, errors.New("the owner of the command answers what cannot be")
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
