package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reprise"
	"reprise/internal/screen"
)

// Screen is what the terminal of an execution shows.
type Screen struct {
	// Cursor is the position just after the last event that was drawn: who follows from there on misses nothing.
	Cursor string `json:"cursor"`
	Cols   int    `json:"cols"`
	Rows   int    `json:"rows"`
	// Text is what can be read on it, a line for each row.
	Text string `json:"text"`
	// Paint, written to a terminal of this size, makes it show the same: colours, cursor, alternate screen and modes
	// too.
	Paint string `json:"paint"`
}

const (
	// drawPatience is how long drawing the output of an execution may take.
	drawPatience = 10 * time.Second
	// maxDrawing is how many screens are drawn at a time.
	maxDrawing = 2
	// drawBytes is how much output is drawn before it is looked whether that takes too long.
	drawBytes = 1 << 10
)

// Screen draws the output of an execution that is kept on a terminal of a size; 0 is that of its own terminal now. The
// error is reprise.ErrConflict if it has no terminal, reprise.ErrUnavailable where drawing takes too long, or as of
// Show.
func (h *Host) Screen(ctx context.Context, tenant reprise.Tenant, id string, on TTY) (Screen, error) {
	x, err := h.Show(ctx, tenant, id)
	switch {
	case err != nil:
		return Screen{}, err
	case x.TTY == nil:
		return Screen{}, errNoTerminal
	}
	ctx, cancel := context.WithTimeoutCause(ctx, drawPatience,
		fmt.Errorf("%w: drawing the screen takes too long", reprise.ErrUnavailable))
	defer cancel()
	select {
	case h.drawing <- struct{}{}:
	case <-ctx.Done():
		return Screen{}, context.Cause(ctx)
	}
	defer func() { <-h.drawing }()
	s, err := h.Stream(ctx, tenant, id)
	if err != nil {
		return Screen{}, err
	}
	size := sizeOf(x.TTY)
	drawn := screen.New(cmp.Or(on.Cols, size.Cols), cmp.Or(on.Rows, size.Rows))
	seq, err := draw(ctx, s, drawn)
	if err != nil {
		return Screen{}, err
	}
	cols, rows := drawn.Size()
	return Screen{
		Cursor: s.Cursor(seq).String(), Cols: cols, Rows: rows, Text: drawn.Text(), Paint: string(drawn.Paint()),
	}, nil
}

// draw draws all output that is there, and returns the seq of the last event.
func draw(ctx context.Context, s *reprise.Stream, on *screen.Screen) (seq uint64, err error) {
	reader, err := s.Reader(ctx, reprise.Earliest())
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for {
		run, err := reader.Poll(ctx)
		if lost, ok := errors.AsType[*reprise.WindowError](err); ok && lost.Reason == reprise.CursorExpired {
			if err := reader.Seek(reprise.Earliest()); err != nil { // the window has moved past us
				return 0, err
			}
			continue
		}
		if err != nil && !errors.Is(err, reprise.ErrEnded) {
			return 0, err
		}
		if err := drawRun(ctx, run, on); err != nil {
			return 0, err
		}
		if err != nil || run.Len() == 0 {
			return reader.Cursor().Seq, nil
		}
	}
}

// drawRun draws the output among some events. It stops soon after ctx is done.
func drawRun(ctx context.Context, run reprise.Run, on *screen.Screen) error {
	for e := range run.All() {
		if e.Type != Stdout {
			continue
		}
		for piece := range slices.Chunk(e.Data, drawBytes) {
			_, _ = on.Write(piece)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
