package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"reprise"
)

// correctRace is P13: a reader whose connection is cut again and again, while the events
// are appended. A lap fails if an event was lost, doubled or out of order.
func correctRace() Race {
	race := Race{Name: "Correct"}
	for _, store := range []string{"memory", "sqlite", "log"} {
		for _, events := range []int{100_000, 1_000_000} {
			name := fmt.Sprintf("store=%s/events=%d", store, events)
			race.Contenders = append(race.Contenders, Contender{name, correct(store, events), false})
			race.Rows = append(race.Rows, Row{
				Target: "P13", What: fmt.Sprintf("events lost or doubled of %d, %s", events, store), Unit: "wrong",
				Ours:  name,
				First: Bound{Most: 0.5}, Goal: Bound{Most: 0.5},
			})
		}
	}
	return race
}

// cuts is about how often the connection of a reader is cut.
const cuts = 200

func correct(store string, events int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		events := events / scale.Of(1, 20)
		return once(func(ctx context.Context) (Sample, error) { return correctLap(ctx, store, events) }), nil
	}
}

func correctLap(ctx context.Context, kind string, events int) (Sample, error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { _ = remove() }()
	store, err := openStore(ctx, kind, dir)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	log, s, err := historyLog(ctx, store, history{events: events / 2})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	addr, err := serveHTTP(handlerOf(log))
	if err != nil {
		return nil, err
	}
	writing := make(chan error, 1)
	go func() { writing <- finish(ctx, s, events-events/2) }()
	c := cutReader{addr: addr, last: "earliest", cutEvery: max(events*350/cuts, 10_000)}
	if err := c.readAll(); err != nil {
		return nil, err
	}
	if err := <-writing; err != nil {
		return nil, err
	}
	if lost := events + 1 - int(c.seq); c.wrong != 0 || lost != 0 { // with the end event
		return nil, fmt.Errorf("%w: %d lost at the end, %d doubled or out of order", errLost, lost, c.wrong)
	}
	return Sample{"wrong": float64(c.wrong), "cuts": float64(c.cut)}, nil
}

// finish appends n events and the end.
func finish(ctx context.Context, s *reprise.Stream, n int) error {
	if err := fill(ctx, s, n); err != nil {
		return err
	}
	_, err := s.End(ctx, "completed", reprise.Event{})
	return err
}

// cutReader reads a stream over connections that it cuts itself, in the middle of
// whatever was being sent.
type cutReader struct {
	addr     string
	cutEvery int // bytes, at most twice as many

	last  string // the id of the last whole event
	seq   uint64
	cut   int
	wrong int // events that were not the next one
}

// readAll reads up to the end event.
func (c *cutReader) readAll() error {
	for {
		ended, err := c.readOne()
		if ended || err != nil {
			return err
		}
		c.cut++
	}
}

// readOne reads over one connection until it is cut. ended is true after the end event.
func (c *cutReader) readOne() (ended bool, err error) {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return false, err
	}
	// With HTTP/1.0 the body comes without chunks.
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.0\r\nHost: bench\r\nLast-Event-ID: %s\r\n\r\n", c.last); err != nil {
		return false, err
	}
	limited := io.LimitReader(conn, int64(1000+rand.IntN(2*c.cutEvery)))
	lines := bufio.NewReaderSize(limited, 64<<10)
	if head, err := lines.ReadString('\n'); err != nil || !bytes.HasPrefix([]byte(head), []byte("HTTP/1.0 200")) {
		return false, fmt.Errorf("resumed at %q: %q, %w", c.last, head, err)
	}
	return c.readFrames(lines)
}

// readFrames takes whole events; what the cut has left of one is thrown away.
func (c *cutReader) readFrames(lines *bufio.Reader) (ended bool, err error) {
	var id, typ string
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		line = line[:len(line)-1]
		if field, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			id = string(field)
		} else if field, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			typ = string(field)
		}
		if len(line) > 0 || id == "" {
			continue
		}
		if err := c.take(id); err != nil {
			return false, err
		}
		if typ == reprise.TypeEnd {
			return true, nil
		}
		id = ""
	}
}

// take counts an event whose id is the text of a cursor.
func (c *cutReader) take(id string) error {
	digits, _, _ := bytes.Cut([]byte(id), []byte("."))
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return err
	}
	if seq != c.seq+1 {
		c.wrong++
	}
	c.seq, c.last = seq, id
	return nil
}
