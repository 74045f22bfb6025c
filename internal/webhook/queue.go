package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"reprise"
)

// A queue is a stream. Its events have the type "message", for a message to send, or "state". The data of both is a
// record. Each record carries the current progress, so the newest one suffices to read it. A state carries the
// positions in all sources, and the records after it the positions that moved since. States are appended often enough
// that the window of the stream always holds one.

const (
	typeMessage = "message"
	typeState   = "state"
	typeClaim   = "claim"
)

// Progress is the progress of a hook.
type Progress struct {
	// Queued is the number of the newest message, counted from 1, and Sent the number of the last one that
	// was acknowledged or dropped.
	Queued uint64 `json:"queued"`
	Sent   uint64 `json:"sent"`
	// Dropped is the number of messages dropped because the queue was full.
	Dropped uint64 `json:"dropped,omitempty"`
	// Succeeded is the time of the last acknowledgement.
	Succeeded *time.Time `json:"succeeded,omitempty"`
	// Failing is the time since which every try has failed, nil if the last one succeeded. Status is the status of the
	// last failure, 0 if there was no response, and Error describes it.
	Failing *time.Time `json:"failing,omitempty"`
	Status  int        `json:"status,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// record is the data of an event in a queue.
type record struct {
	Progress
	Message *message `json:"message,omitempty"`
	Sources *sources `json:"sources,omitempty"`
}

// message is a message to send.
type message struct {
	N    uint64          `json:"n"`
	ID   string          `json:"id"`
	Body json.RawMessage `json:"body"`
	// Name is the name of the stream that the message is about, At the position of the event in it. If the event was
	// the end of the stream, Over is the time at which the stream was created.
	Name string     `json:"name"`
	At   position   `json:"at"`
	Over *time.Time `json:"over,omitempty"`
}

// defaultQueue bounds a queue: each message takes two events.
var defaultQueue = reprise.Retention{MaxEvents: 20_000, MaxBytes: 64 << 20}

// Amounts to append before the next state. They are far below the bounds of a queue.
const (
	stateEvery      = 2000
	stateEveryBytes = 8 << 20
)

// queue is the queue of a hook as its sender sees it.
type queue struct {
	stream *reprise.Stream
	opts   reprise.AppendOptions

	mu       sync.Mutex
	progress Progress
	sources  *sources
	since    int    // records since the last state
	bytes    int    // of these records
	stateAt  uint64 // seq of the last state
	sentAt   uint64 // seq of the last message that was sent
	tail     uint64 // seq of the last event
	lost     error  // an append failed: whether its messages are in the queue is unknown
}

// makeQueue creates the queue of a new hook, with its start positions.
func makeQueue(ctx context.Context, log *reprise.Log, hook *Hook, keep reprise.Retention, from *sources) error {
	st, _, err := log.Create(ctx, hook.queueKey(), reprise.StreamConfig{Retention: keep})
	if err != nil {
		return err
	}
	event, err := eventOf(typeState, &record{Sources: from})
	if err == nil {
		_, err = st.Append(ctx, event)
	}
	return err
}

func eventOf(kind string, r *record) (reprise.Event, error) {
	text, err := json.Marshal(r)
	return reprise.Event{Type: kind, Data: text, Format: reprise.FormatJSON}, err
}

// openQueue takes over a queue from its last owner and reads its contents.
func openQueue(ctx context.Context, log *reprise.Log, hook *Hook, owner reprise.Owner) (*queue, error) {
	st, err := log.Stream(ctx, hook.queueKey())
	if err != nil {
		return nil, err
	}
	q := &queue{stream: st, opts: reprise.AppendOptions{Owner: owner}, sources: newSources(time.Now())}
	claimed, err := st.AppendWith(ctx, q.opts, reprise.Event{Type: typeClaim})
	if err != nil {
		return nil, err
	}
	q.tail = claimed.Last
	reader, err := st.Reader(ctx, reprise.Earliest())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for reader.Cursor().Seq < claimed.Last {
		events, err := reader.Poll(ctx)
		if err != nil {
			return nil, err
		}
		for e := range events.All() {
			if err := q.replay(&e); err != nil {
				return nil, err
			}
		}
	}
	return q, nil
}

// replay applies an event of the queue.
func (q *queue) replay(e *reprise.Event) error {
	if e.Type == typeClaim {
		return nil
	}
	var r record
	if err := json.Unmarshal(e.Data, &r); err != nil {
		return fmt.Errorf("event %d of the queue: %w", e.Seq, err)
	}
	queued := q.progress.Queued
	q.progress = r.Progress
	q.progress.Queued = max(queued, r.Queued) // older records may count an append that seemed to fail
	q.since++
	q.bytes += len(e.Data)
	if r.Message != nil {
		m := r.Message
		over, created := m.Over != nil, time.Time{}
		if over {
			created = *m.Over
		}
		q.sources.note(m.Name, m.At, over, created)
	}
	if r.Sources != nil {
		q.sources, q.since, q.bytes, q.stateAt = r.Sources.filled(), 0, 0, e.Seq
	}
	return nil
}

// add records results and appends their messages, which are numbered here. After an error nothing more can be added,
// and the queue must be opened again.
func (q *queue) add(ctx context.Context, batch []found) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost != nil {
		return q.lost
	}
	before := q.progress.Queued
	var events []reprise.Event
	for i := range batch {
		f := &batch[i]
		q.sources.note(f.name, f.at, f.over, f.created)
		if f.message == nil {
			continue
		}
		q.progress.Queued++
		m := f.message
		m.N, m.Name, m.At = q.progress.Queued, f.name, f.at
		if f.over {
			m.Over = &f.created
		}
		event, err := eventOf(typeMessage, &record{Progress: q.progress, Message: m})
		if err != nil {
			q.progress.Queued, q.lost = before, err
			return err
		}
		events = append(events, event)
	}
	if len(events) == 0 {
		return nil
	}
	if err := q.append(ctx, events); err != nil {
		q.progress.Queued, q.lost = before, err
		return err
	}
	return nil
}

// append appends events, and a state if one is due. The caller holds mu. Once messages may be lost, no more states are
// appended: their positions would be those after the lost messages.
func (q *queue) append(ctx context.Context, events []reprise.Event) error {
	for i := range events {
		q.bytes += len(events[i].Data)
	}
	q.since += len(events)
	state := q.since >= stateEvery || q.bytes >= stateEveryBytes || len(events) == 0
	if state = state && q.lost == nil; state {
		event, err := eventOf(typeState, &record{Progress: q.progress, Sources: q.sources})
		if err != nil {
			return err
		}
		events = append(events, event)
	}
	kept, err := q.stream.AppendWith(ctx, q.opts, events...)
	if err != nil {
		return err
	}
	q.tail = kept.Last
	if !state {
		return nil
	}
	q.since, q.bytes, q.stateAt = 0, 0, kept.Last
	if before := min(q.stateAt, q.sentAt+1); before > 1 {
		return q.stream.Trim(ctx, before)
	}
	return nil
}

// save appends a state.
func (q *queue) save(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost != nil {
		return q.lost
	}
	return q.append(ctx, nil)
}

// noteSent records that message n, the event at seq of the queue, was acknowledged.
func (q *queue) noteSent(ctx context.Context, n, seq uint64, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.progress.Queued = max(q.progress.Queued, n) // n may be part of an append that seemed to fail
	q.progress.Sent, q.progress.Succeeded = n, &now
	q.progress.Failing, q.progress.Status, q.progress.Error = nil, 0, ""
	q.sentAt = seq
	return q.appendProgress(ctx)
}

// noteDropped records that messages before n were dropped and that the receiver was told.
func (q *queue) noteDropped(ctx context.Context, n, dropped uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.progress.Sent = n - 1
	q.progress.Dropped += dropped
	return q.appendProgress(ctx)
}

// noteFailure records a failed try and returns the time since which all tries have failed.
func (q *queue) noteFailure(ctx context.Context, now time.Time, status int, why string) (since time.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &q.progress
	if p.Failing != nil && p.Status == status && p.Error == why {
		return *p.Failing, nil
	}
	if p.Failing == nil {
		p.Failing = &now
	}
	p.Status, p.Error = status, why
	return *p.Failing, q.appendProgress(ctx)
}

// appendProgress appends the progress. The caller holds mu.
func (q *queue) appendProgress(ctx context.Context) error {
	event, err := eventOf(typeState, &record{Progress: q.progress})
	if err != nil {
		return err
	}
	return q.append(ctx, []reprise.Event{event})
}

// confirm returns nil if the progress in memory is right: no messages were lost, and no other replica sends.
func (q *queue) confirm(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost != nil {
		return q.lost
	}
	return q.appendProgress(ctx)
}

// dropped returns how many of the newest messages left the queue before they were sent, and the number of the last of
// them, for a sender that has read the queue up to seq at. Both are 0 if there is more to read or the state of the
// queue is unknown.
func (q *queue) dropped(at uint64) (count, last uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at < q.tail || q.lost != nil {
		return 0, 0
	}
	return q.progress.Queued - q.progress.Sent, q.progress.Queued
}

func (q *queue) sent() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.progress.Sent
}

// lastRecords is the number of records read to find the newest progress: the newest records may be claims.
const lastRecords = 64

// readProgress reads the newest progress of a hook, whichever replica sends for it.
func readProgress(ctx context.Context, log *reprise.Log, hook *Hook) (p Progress, err error) {
	st, err := log.Stream(ctx, hook.queueKey())
	if err != nil {
		return p, err
	}
	info, err := st.Info(ctx)
	if err != nil {
		return p, err
	}
	after := max(info.Tail, lastRecords) - lastRecords
	reader, err := st.Reader(ctx, reprise.After(st.Cursor(max(after, info.Earliest-1))))
	if isMoved(err) {
		reader, err = st.Reader(ctx, reprise.Earliest())
	}
	if err != nil {
		return p, err
	}
	defer reader.Close()
	for {
		events, err := reader.Poll(ctx)
		if isMoved(err) {
			if err = reader.Seek(reprise.Earliest()); err == nil {
				continue
			}
		}
		if err != nil || events.Len() == 0 {
			return p, err
		}
		for e := range events.All() {
			var r record
			if e.Type != typeClaim && json.Unmarshal(e.Data, &r) == nil {
				p = r.Progress
			}
		}
	}
}

// isMoved reports whether err means that a position is no longer kept.
func isMoved(err error) bool {
	_, moved := errors.AsType[*reprise.WindowError](err)
	return moved
}

// positions returns the positions of the streams that are followed.
func (q *queue) positions() map[string]position {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.sources.Open)
}

func (q *queue) floor() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sources.Floor
}

func (q *queue) knows(info *reprise.StreamInfo) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sources.knows(info)
}

// discovered records streams that are followed from now on; see sources.scanned.
func (q *queue) discovered(fresh map[string]position, newest time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.Copy(q.sources.Open, fresh)
	q.sources.scanned(newest)
}
