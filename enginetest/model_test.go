package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"reprise"
	"reprise/store/memstore"
)

// modelStream is what one life of a stream should be: all events ever appended.
type modelStream struct {
	key      reprise.StreamKey
	config   reprise.StreamConfig
	handle   *reprise.Stream
	events   []string
	earliest uint64
	ended    bool
	seqs     map[string]uint64 // the next seq of each producer
	gone     bool
}

// modelReader follows one of them, from next on.
type modelReader struct {
	reader *reprise.Reader
	of     *modelStream
	next   uint64
}

// machine is a Log beside the model of it.
type machine struct {
	store   reprise.Store
	opts    reprise.Options
	log     *reprise.Log
	streams map[reprise.StreamKey]*modelStream
	readers []*modelReader
	cursors []string // of streams that have gone
	written int
}

// TestModelOfSlicesAgreesWithLog holds a Log against slices: streams that come, go and come again in little memory, so
// that hot and cold reads mix, appends of all kinds, readers in random steps, and restarts.
func TestModelOfSlicesAgreesWithLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{
			store: memstore.New(nil),
			opts: reprise.Options{
				Keys: reprise.NewKeyset(), SweepEvery: -1,
				MaxStreams:     rapid.IntRange(1, 4).Draw(t, "streams in memory"),
				TailBytes:      rapid.SampledFrom([]int{1, 700, 1 << 20}).Draw(t, "tail bytes"),
				TailTotalBytes: rapid.SampledFrom([]int64{1, 3000, 1 << 20}).Draw(t, "tail bytes in all"),
			},
			streams: map[reprise.StreamKey]*modelStream{},
		}
		m.open(t)
		defer m.store.Close()
		defer func() { _ = m.log.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"":        m.compare,
			"create":  m.create,
			"append":  m.append,
			"produce": m.produce,
			"end":     m.end,
			"trim":    m.trim,
			"read":    m.read,
			"step":    m.step,
			"remove":  m.remove,
			"foreign": m.foreign,
			"restart": m.restart,
		})
	})
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) open(t *rapid.T) {
	var err error
	m.log, err = reprise.Open(context.Background(), m.store, &m.opts)
	must(t, err)
}

// pick draws a stream that is there.
func (m *machine) pick(t *rapid.T) *modelStream {
	var all []*modelStream
	for _, name := range modelNames {
		if s := m.streams[name]; s != nil {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		t.Skip("no stream")
	}
	return rapid.SampledFrom(all).Draw(t, "stream")
}

var modelNames = []reprise.StreamKey{
	{Tenant: "a", Name: "x"},
	{Tenant: "a", Name: "x/y"},
	{Tenant: "b", Name: "x"},
	{Tenant: "b", Name: "n:x"},
	{Tenant: "c", Name: "z"},
}

func (m *machine) create(t *rapid.T) {
	key := rapid.SampledFrom(modelNames).Draw(t, "key")
	config := reprise.StreamConfig{Retention: reprise.Retention{
		MaxEvents: rapid.SampledFrom([]int64{0, 1, 7, 30}).Draw(t, "max events"),
		MaxBytes:  rapid.SampledFrom([]int64{0, 400, 3000}).Draw(t, "max bytes"),
	}}
	handle, created, err := m.log.Create(context.Background(), key, config)
	known := m.streams[key]
	switch {
	case known == nil:
		must(t, err)
		if !created {
			t.Fatalf("%s is there already", key)
		}
		m.streams[key] = &modelStream{key: key, config: config, handle: handle, earliest: 1, seqs: map[string]uint64{}}
	case known.config.Equal(config):
		must(t, err)
		if created {
			t.Fatalf("%s was made twice", key)
		}
		known.handle = handle
	case !errors.Is(err, reprise.ErrConflict):
		t.Fatalf("%s with another configuration: %v", key, err)
	}
}

// batch draws events and their texts.
func (m *machine) batch(t *rapid.T) (events []reprise.Event, texts []string) {
	for range rapid.IntRange(1, 12).Draw(t, "count") {
		m.written++
		data := fmt.Sprintf("%d:%0*d", m.written, rapid.IntRange(0, 60).Draw(t, "size"), 0)
		events, texts = append(events, text(data)), append(texts, data)
	}
	return events, texts
}

// took notes what an append should have done, and how far the bounds have trimmed.
func (m *machine) took(t *rapid.T, s *modelStream, appended reprise.Appended, err error, texts []string) {
	if s.ended {
		if !errors.Is(err, reprise.ErrEnded) {
			t.Fatalf("append after the end: %v", err)
		}
		return
	}
	must(t, err)
	tail := uint64(len(s.events))
	s.events = append(s.events, texts...)
	if appended.Duplicate || appended.First != tail+1 || appended.Last != uint64(len(s.events)) {
		t.Fatalf("%+v after %d", appended, tail)
	}
	info, err := s.handle.Info(context.Background())
	must(t, err)
	count, bytes := s.config.Retention.MaxEvents, s.config.Retention.MaxBytes
	if info.Earliest < s.earliest || info.Earliest > tail+1 && count == 0 ||
		count > 0 && int64(info.Kept()) > count || bytes > 0 && info.Bytes > bytes && info.Earliest <= tail {
		t.Fatalf("bounds %d and %d: kept are %d to %d, %d bytes, of a batch from %d", count, bytes, info.Earliest,
			info.Tail, info.Bytes, tail+1)
	}
	if bytes == 0 && count > 0 && int64(info.Kept()) != min(count, int64(tail)+int64(len(texts))-int64(s.earliest)+1) {
		t.Fatalf("bound %d: kept are %d to %d", count, info.Earliest, info.Tail)
	}
	s.earliest = info.Earliest
}

func (m *machine) append(t *rapid.T) {
	s := m.pick(t)
	events, texts := m.batch(t)
	appended, err := s.handle.Append(context.Background(), events...)
	m.took(t, s, appended, err, texts)
}

func (m *machine) produce(t *rapid.T) {
	s := m.pick(t)
	id := rapid.SampledFrom([]string{"p", "q"}).Draw(t, "producer")
	seq := rapid.Uint64Range(0, s.seqs[id]+1).Draw(t, "seq")
	events, texts := m.batch(t)
	appended, err := s.handle.AppendWith(context.Background(), producing(id, 0, seq), events...)
	switch next := s.seqs[id]; {
	case seq < next:
		if err != nil || !appended.Duplicate {
			t.Fatalf("a repeat: %+v, %v", appended, err)
		}
	case seq > next:
		if !errors.Is(err, reprise.ErrConflict) {
			t.Fatalf("a gap: %+v, %v", appended, err)
		}
	default:
		m.took(t, s, appended, err, texts)
		if !s.ended {
			s.seqs[id]++
		}
	}
}

func (m *machine) end(t *rapid.T) {
	s := m.pick(t)
	appended, err := s.handle.End(context.Background(), "completed", reprise.Event{Data: []byte("end")})
	m.took(t, s, appended, err, []string{"end"})
	s.ended = true
}

func (m *machine) trim(t *rapid.T) {
	s := m.pick(t)
	before := rapid.Uint64Range(0, uint64(len(s.events))+2).Draw(t, "before")
	err := s.handle.Trim(context.Background(), before)
	if before > uint64(len(s.events))+1 {
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Fatalf("trim before %d of %d: %v", before, len(s.events), err)
		}
		return
	}
	must(t, err)
	s.earliest = max(s.earliest, before)
}

func (m *machine) read(t *rapid.T) {
	s := m.pick(t)
	after := rapid.Uint64Range(0, uint64(len(s.events))+1).Draw(t, "after")
	m.follow(t, s, s.handle.Cursor(after).String())
}

// follow opens a reader and checks what it is told of its position.
func (m *machine) follow(t *rapid.T, s *modelStream, cursor string) {
	at, err := reprise.ParsePosition(cursor)
	must(t, err)
	parsed, err := reprise.ParseCursor(cursor)
	must(t, err)
	reader, err := s.handle.Reader(context.Background(), at)
	refused, _ := errors.AsType[*reprise.WindowError](err)
	switch {
	case parsed.Seq > uint64(len(s.events)):
		if refused == nil || refused.Reason != reprise.CursorAhead {
			t.Fatalf("after %d of %d: %v", parsed.Seq, len(s.events), err)
		}
	case parsed.Seq+1 < s.earliest:
		if refused == nil || refused.Reason != reprise.CursorExpired || refused.Missed() != s.earliest-parsed.Seq-1 {
			t.Fatalf("after %d, kept from %d: %v", parsed.Seq, s.earliest, err)
		}
	default:
		must(t, err)
		m.readers = append(m.readers, &modelReader{reader, s, parsed.Seq + 1})
	}
}

// step polls one reader once.
func (m *machine) step(t *rapid.T) {
	if len(m.readers) == 0 {
		t.Skip("no reader")
	}
	i := rapid.IntRange(0, len(m.readers)-1).Draw(t, "reader")
	r, s := m.readers[i], m.readers[i].of
	run, err := r.reader.Poll(context.Background())
	tail := uint64(len(s.events))
	switch {
	case s.gone:
		if !errors.Is(err, reprise.ErrNotFound) {
			t.Fatalf("of a removed stream: %v", err)
		}
		must(t, r.reader.Close())
		m.readers = append(m.readers[:i], m.readers[i+1:]...)
	case r.next > tail && s.ended:
		if !errors.Is(err, reprise.ErrEnded) {
			t.Fatalf("at the end: %v", err)
		}
	case r.next < s.earliest:
		refused, ok := errors.AsType[*reprise.WindowError](err)
		if !ok || refused.Missed() != s.earliest-r.next {
			t.Fatalf("at %d, kept from %d: %v", r.next, s.earliest, err)
		}
		must(t, r.reader.Seek(reprise.Earliest()))
		r.next = s.earliest
	default:
		must(t, err)
		if run.Len() == 0 && r.next <= tail {
			t.Fatalf("nothing at %d of %d", r.next, tail)
		}
		for e := range run.All() {
			if e.Seq != r.next || string(e.Data) != s.events[e.Seq-1] {
				t.Fatalf("event %d %q, want %d %q", e.Seq, e.Data, r.next, s.events[r.next-1])
			}
			r.next++
		}
	}
}

func (m *machine) remove(t *rapid.T) {
	s := m.pick(t)
	m.cursors = append(m.cursors, s.handle.Cursor(0).String())
	must(t, m.log.Remove(context.Background(), s.key))
	s.gone = true
	delete(m.streams, s.key)
	if _, err := s.handle.Append(context.Background(), text("late")); !errors.Is(err, reprise.ErrNotFound) {
		t.Fatalf("append to a removed stream: %v", err)
	}
}

// foreign shows the cursor of a life that has gone.
func (m *machine) foreign(t *rapid.T) {
	if len(m.cursors) == 0 {
		t.Skip("no stream was removed")
	}
	s := m.pick(t)
	at, err := reprise.ParsePosition(rapid.SampledFrom(m.cursors).Draw(t, "cursor"))
	must(t, err)
	_, err = s.handle.Reader(context.Background(), at)
	refused, _ := errors.AsType[*reprise.WindowError](err)
	if !errors.Is(err, reprise.ErrCursorForeign) && (refused == nil || refused.Reason != reprise.EpochChanged) {
		t.Fatalf("a cursor of another life: %v", err)
	}
}

// restart closes the Log and opens another one; readers come back with their cursors.
func (m *machine) restart(t *rapid.T) {
	readers := m.readers
	m.readers = nil
	must(t, m.log.Close())
	cursors := make([]string, len(readers))
	for i, r := range readers {
		want := reprise.ErrClosed
		if r.of.gone {
			want = reprise.ErrNotFound
		}
		if _, err := r.reader.Poll(context.Background()); !errors.Is(err, want) {
			t.Fatalf("of a closed Log: %v", err)
		}
		cursors[i] = r.reader.Cursor().String()
		must(t, r.reader.Close())
	}
	m.open(t)
	for _, s := range m.streams {
		var err error
		s.handle, err = m.log.Stream(context.Background(), s.key)
		must(t, err)
	}
	for i, r := range readers {
		if !r.of.gone {
			m.follow(t, r.of, cursors[i])
		}
	}
}

// compare holds each stream against its model.
func (m *machine) compare(t *rapid.T) {
	for _, key := range modelNames {
		s := m.streams[key]
		if s == nil {
			if _, err := m.log.Stream(context.Background(), key); !errors.Is(err, reprise.ErrNotFound) {
				t.Fatalf("%s should not be there: %v", key, err)
			}
			continue
		}
		info, err := s.handle.Info(context.Background())
		must(t, err)
		if info.Earliest != s.earliest || info.Tail != uint64(len(s.events)) || (info.End != nil) != s.ended ||
			info.Bytes < 0 {
			t.Fatalf("%s: %+v, want %d to %d, ended %v", key, info, s.earliest, len(s.events), s.ended)
		}
	}
}
