package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"reprise"
	"reprise/internal/problem"
)

const (
	// pieceBytes is how much stdin is sent to another replica at a time. In an ask it takes a third more.
	pieceBytes = 256 << 10
	// piecePatience is how long a piece waits at the owner for the command to read it, before the answer says how far
	// it is.
	piecePatience = 3 * time.Second
)

// farStdin writes to the stdin of a command that another replica runs.
type farStdin struct {
	host   *Host
	owner  string
	tenant reprise.Tenant
	id     string
	state  Stdin // as the owner has told last
}

// write does one StdinWrite, in pieces.
func (f *farStdin) write(ctx context.Context, w StdinWrite) (Stdin, error) {
	if w.Data == nil {
		_, err := f.send(ctx, &askStdin{Offset: w.Offset, EOF: w.EOF})
		return f.state, err
	}
	at := askStdin{Offset: w.Offset}
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
	_, err := f.send(ctx, &at)
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
		t, err := f.host.ask(ctx, f.owner, ask{Op: opStdin, Tenant: f.tenant, ID: f.id, Stdin: a})
		switch {
		case err != nil:
			return nil, err
		case t.Stdin == nil || t.Stdin.Took < 0 || t.Stdin.Took > len(a.Data):
			return nil, fmt.Errorf("replica %s answers what cannot be", f.owner)
		}
		f.state = t.Stdin.Stdin
		switch {
		case t.Stdin.Refused != nil:
			return nil, *t.Stdin.Refused
		case t.Stdin.Again && t.Stdin.Took == 0:
			continue
		}
		return t.Stdin, nil
	}
}

// stdinPiece gives a piece from another replica to a command of ours, or as much of it as the
// command takes for now. r is nil for one that has ended.
func (r *run) stdinPiece(ctx context.Context, a *askStdin) *toldStdin {
	if r == nil {
		p := problem.From(errHasEnded)
		return &toldStdin{Refused: &p}
	}
	w := StdinWrite{Offset: a.Offset, EOF: a.EOF, exact: a.Exact}
	if a.Data != nil {
		w.Data = bytes.NewReader(a.Data)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, piecePatience, errPause)
	defer cancel()
	took, state, err := r.writeStdin(ctx, w)
	t := &toldStdin{Stdin: state, Took: int(took)}
	switch {
	case errors.Is(err, errPause):
		t.Again = true
	case err != nil:
		p := problem.From(err)
		t.Refused = &p
	}
	return t
}
