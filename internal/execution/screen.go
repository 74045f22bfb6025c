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

// Screen is the content of the terminal of an execution.
type Screen struct {
	// Cursor is the position just after the last drawn event. A follower that begins there misses nothing.
	Cursor string `json:"cursor"`
	Cols   int    `json:"cols"`
	Rows   int    `json:"rows"`
	// Text is the visible text, with a line for each row.
	Text string `json:"text"`
	// Paint, written to a terminal of this size, makes it show the same: colours, cursor, alternate screen and modes
	// too.
	Paint string `json:"paint"`
}

const (
	// drawPatience limits the time for drawing the output of an execution.
	drawPatience = 10 * time.Second
	// maxDrawing is the maximum number of screens that are drawn at a time.
	maxDrawing = 2
	// drawBytes is how much output is drawn between two checks of the time.
	drawBytes = 1 << 10
)

// Screen draws the kept output of an execution on a terminal of the given size; 0 means the current size of its
// terminal. The error is reprise.ErrConflict if the execution has no terminal, reprise.ErrUnavailable if drawing takes
// too long, or an error of Show.
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

// draw draws all output so far, and returns the seq of the last event.
func draw(ctx context.Context, s *reprise.Stream, on *screen.Screen) (seq uint64, err error) {
	reader, err := s.Reader(ctx, reprise.Earliest())
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for {
		events, err := reader.Poll(ctx)
		if lost, ok := errors.AsType[*reprise.WindowError](err); ok && lost.Reason == reprise.CursorExpired {
			if err := reader.Seek(reprise.Earliest()); err != nil { // the window has moved past us
				return 0, err
			}
			continue
		}
		if err != nil && !errors.Is(err, reprise.ErrEnded) {
			return 0, err
		}
		if err := drawEvents(ctx, events, on); err != nil {
			return 0, err
		}
		if err != nil || events.Len() == 0 {
			return reader.Cursor().Seq, nil
		}
	}
}

// drawRun draws the output among some events. It stops soon after ctx is done.
func drawEvents(ctx context.Context, events reprise.Events, on *screen.Screen) error {
	for e := range events.All() {
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
