package execution

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"reprise"
	"reprise/internal/execution/command"
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
	// maxDrawing is the maximum number of screens that are drawn at a time. A tenant draws one.
	maxDrawing = 2
	// drawBytes is how much output is drawn between two checks of the time and the work.
	drawBytes = 256
	// drawWork bounds the work for a screen, as screen.Screen.Work counts it, and drawWorkEach what each byte of output
	// adds to it. Programs clear about one cell for each byte.
	drawWork     = 1 << 27
	drawWorkEach = 16
	// maxCells bounds the cells of a screen that is drawn, for their memory.
	maxCells = 1 << 17
)

// errCostly is why a screen is not drawn.
var errCostly = fmt.Errorf("%w: drawing the screen takes too much work", reprise.ErrUnavailable)

// Screen draws the kept output of an execution on a terminal of the given size; 0 means the current size of its
// terminal. The error is reprise.ErrConflict if the execution has no terminal, reprise.ErrUnavailable if drawing takes
// too long or too much work, or an error of Show.
func (h *Host) Screen(ctx context.Context, tenant reprise.Tenant, id string, on TTY) (Screen, error) {
	x, err := h.Show(ctx, tenant, id)
	switch {
	case err != nil:
		return Screen{}, err
	case x.Expired:
		return Screen{}, errOutputExpired
	case x.TTY == nil:
		return Screen{}, errNoTerminal
	}
	ctx, cancel := context.WithTimeoutCause(ctx, drawPatience,
		fmt.Errorf("%w: drawing the screen takes too long", reprise.ErrUnavailable))
	defer cancel()
	release, err := h.drawing.Take(ctx, tenant)
	if err != nil {
		return Screen{}, err
	}
	defer release()
	s, err := h.Stream(ctx, tenant, id)
	if err != nil {
		return Screen{}, err
	}
	size := command.Size(*x.TTY).WithDefaults()
	cols := min(cmp.Or(on.Cols, size.Cols), screen.MaxCols)
	drawn := screen.New(cols, min(cmp.Or(on.Rows, size.Rows), maxCells/cols))
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
	var bytes int64 // of output that was drawn
	return eachBatch(ctx, s, reprise.Earliest(), func() {}, func(events reprise.Events) (bool, error) {
		return false, drawEvents(ctx, events, on, &bytes)
	})
}

// drawEvents draws the output among some events, and adds its size to bytes. It stops soon after ctx is done, or when
// the output takes too much work.
func drawEvents(ctx context.Context, events reprise.Events, on *screen.Screen, bytes *int64) error {
	for e := range events.All() {
		if e.Type != Stdout {
			continue
		}
		for piece := range slices.Chunk(e.Data, drawBytes) {
			_, _ = on.Write(piece)
			*bytes += int64(len(piece))
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case on.Work() > drawWork+drawWorkEach**bytes:
				return errCostly
			}
		}
	}
	return nil
}
