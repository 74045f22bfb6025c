package audit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"reprise"
)

// Options are the settings of a Trail. The zero value of each field means its default.
type Options struct {
	// Retention limits the kept records, from the creation of the stream on. Default: 1,000,000 records, 1 GiB.
	Retention reprise.Retention
	// NoteEvery is within what time notes are kept. Default: 1 s.
	NoteEvery time.Duration
	// RefusedEvery is how long refusals are counted before they are recorded. Default: 1 minute.
	RefusedEvery time.Duration
	// Logger logs entries that could not be kept. Default: silent.
	Logger *slog.Logger
}

const (
	// maxBatch is the number of records in one append, maxWaiting the number that may wait for it.
	maxBatch   = 500
	maxWaiting = 10_000
	// maxRefusals is the number of kinds of refusals that are counted separately in RefusedEvery.
	maxRefusals = 1000
)

// Trail writes one chain. It is safe for concurrent use.
type Trail struct {
	log    *reprise.Log
	keys   *reprise.Keyset
	opts   Options
	writer string

	ctx   context.Context // until Close
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu       sync.Mutex
	waiting  []pending
	moreWork chan struct{} // holds a token while something waits
	refused  map[Entry]int // without its time and count
	dropped  int           // notes and refusals that were dropped for lack of room

	// Of the goroutine that writes.
	n      uint64
	prev   string
	batch  uint64
	unsure []reprise.Event // of an append that may have been kept
}

// pending is an entry that is not kept yet.
type pending struct {
	entry Entry
	done  chan<- error // nil for a note
}

// Open begins a chain in the stream of log, which is made if need be. keys are for nothing else. ctx bounds that.
// opts may be nil.
func Open(ctx context.Context, log *reprise.Log, keys *reprise.Keyset, opts *Options) (*Trail, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Retention == (reprise.Retention{}) {
		o.Retention = reprise.Retention{MaxEvents: 1_000_000, MaxBytes: 1 << 30}
	}
	if o.NoteEvery == 0 {
		o.NoteEvery = time.Second
	}
	if o.RefusedEvery == 0 {
		o.RefusedEvery = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Trail{
		log: log, keys: keys, opts: o, writer: rand.Text()[:16],
		moreWork: make(chan struct{}, 1), refused: map[Entry]int{},
	}
	if err := t.begin(ctx); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.tasks.Go(t.write)
	return t, nil
}

// begin finds the newest record, after which the chain begins.
func (t *Trail) begin(ctx context.Context) error {
	stream, err := t.stream(ctx)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.Kept() == 0 {
		return err
	}
	reader, err := stream.Reader(ctx, reprise.After(stream.Cursor(info.Tail-1)))
	if err != nil {
		return err
	}
	defer reader.Close()
	events, err := reader.Poll(ctx)
	for e := range events.All() {
		var newest record
		if json.Unmarshal(e.Data, &newest) == nil {
			t.prev = newest.Code
		}
	}
	return err
}

// stream finds or creates the stream. An existing one with other limits is not changed.
func (t *Trail) stream(ctx context.Context) (*reprise.Stream, error) {
	stream, _, err := t.log.Create(ctx, StreamKey, reprise.StreamConfig{Retention: t.opts.Retention})
	if errors.Is(err, reprise.ErrConflict) {
		return t.log.Stream(ctx, StreamKey)
	}
	return stream, err
}

// Check is Check for the stream that t writes.
func (t *Trail) Check(ctx context.Context) (Found, error) { return Check(ctx, t.log, t.keys) }

// Close keeps what waits, as far as the store takes it, and ends the chain.
func (t *Trail) Close() {
	if t == nil {
		return
	}
	t.stop()
	t.tasks.Wait()
}

// Record keeps an entry, and returns when it is kept. An error means that the operation must not continue:
// reprise.ErrUnavailable if too many entries wait, reprise.ErrClosed, or that of the store. The record may be kept
// despite an error.
func (t *Trail) Record(ctx context.Context, e Entry) error {
	done := make(chan error, 1)
	if err := t.add(e, done); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Note keeps an entry of what changes nothing, soon. Where too many wait it is dropped, which is recorded.
func (t *Trail) Note(e Entry) {
	if t.add(e, nil) != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.dropped++
	}
}

func (t *Trail) add(e Entry, done chan<- error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return reprise.ErrClosed
	}
	if len(t.waiting) >= maxWaiting {
		return fmt.Errorf("%w: %d records wait to be kept", reprise.ErrUnavailable, len(t.waiting))
	}
	clean(&e)
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC().Truncate(time.Millisecond)
	t.waiting = append(t.waiting, pending{e, done})
	if done != nil {
		t.wake()
	}
	return nil
}

func (t *Trail) wake() {
	select {
	case t.moreWork <- struct{}{}:
	default:
	}
}

// Refuse counts an entry with a Result. Time, Count and Request are not looked at.
func (t *Trail) Refuse(e Entry) {
	e.Time, e.Count, e.Request = time.Time{}, 0, ""
	clean(&e)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.refused[e]; !known && len(t.refused) >= maxRefusals {
		t.dropped++
		return
	}
	t.refused[e]++
}

// write keeps what waits until Close, and then once more.
func (t *Trail) write() {
	notes, refusals := time.NewTicker(t.opts.NoteEvery), time.NewTicker(t.opts.RefusedEvery)
	defer notes.Stop()
	defer refusals.Stop()
	for {
		select {
		case <-t.moreWork:
		case <-notes.C:
		case <-refusals.C:
			t.takeRefusals(time.Now().Add(-t.opts.RefusedEvery))
		case <-t.ctx.Done():
			t.takeRefusals(time.Now())
			t.keepAll()
			return
		}
		t.keepAll()
	}
}

// takeRefusals makes entries of the refusals since a time.
func (t *Trail) takeRefusals(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since = since.UTC().Truncate(time.Millisecond)
	for e, count := range t.refused {
		e.Time, e.Count = since, count
		t.waiting = append(t.waiting, pending{entry: e})
	}
	clear(t.refused)
	if t.dropped > 0 {
		e := Entry{Time: since, Act: "audit", Result: "dropped", Count: t.dropped}
		t.waiting = append(t.waiting, pending{entry: e})
		t.dropped = 0
	}
}

// keepTimeout bounds an append.
const keepTimeout = 10 * time.Second

// keepAll keeps what waits, batch by batch.
func (t *Trail) keepAll() {
	for {
		t.mu.Lock()
		take := t.waiting[:min(len(t.waiting), maxBatch)]
		t.waiting = t.waiting[len(take):]
		t.mu.Unlock()
		if len(take) == 0 {
			return
		}
		err := t.keep(take)
		lost := 0
		for _, p := range take {
			if p.done != nil {
				p.done <- err
			} else {
				lost++
			}
		}
		if err != nil {
			t.opts.Logger.Error("audit records could not be kept", "records", len(take), "error", err)
			t.mu.Lock()
			t.dropped += lost
			t.mu.Unlock()
		}
	}
}

// keep appends entries to the chain. An append that has failed may have been stored: the same one is sent again,
// under the same number, before the next.
func (t *Trail) keep(list []pending) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), keepTimeout)
	defer cancel()
	if len(t.unsure) > 0 {
		if err := t.append(ctx); err != nil {
			return err
		}
	}
	for _, p := range list {
		rec := record{AuditEntry: p.entry, Writer: t.writer, N: t.n + 1, Prev: t.prev}
		if err := rec.seal(t.keys); err != nil {
			return err
		}
		text, err := json.Marshal(&rec)
		if err != nil {
			return err
		}
		t.unsure = append(t.unsure, reprise.Event{Type: EventType, Data: text, Format: reprise.FormatJSON})
		t.n, t.prev = rec.N, rec.Code
	}
	return t.append(ctx)
}

// append sends the batch that is not known to be kept.
func (t *Trail) append(ctx context.Context) error {
	stream, err := t.stream(ctx)
	if err != nil {
		return err
	}
	producer := &reprise.ProducerID{ID: t.writer, Seq: t.batch}
	if _, err := stream.AppendWith(ctx, reprise.AppendOptions{Producer: producer}, t.unsure...); err != nil {
		return err
	}
	t.unsure = nil
	t.batch++
	return nil
}
