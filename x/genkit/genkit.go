// Package genkit keeps the durable streams of Genkit in a Log of reprise: with a store on disk they outlive the
// process, and with a shared one every replica serves them.
//
//	manager, err := genkit.Open(ctx, log)
//	mux.HandleFunc("POST /answer", genkitsdk.Handler(flow, genkitsdk.WithStreamManager(manager)))
//
// Unlike the managers of Genkit it loses no chunk of a slow reader, and replays any number of them. A stream never is
// done when a chunk is missing, because it could not be written, because the retention of the Log has removed it, or
// because the process was killed.
package genkit

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/firebase/genkit/go/core"
	"github.com/firebase/genkit/go/core/x/streaming"

	"reprise"
)

// The outcomes of the streams in the Log.
const (
	outcomeDone  = "completed"
	outcomeError = "failed"
	outcomeLost  = "lost" // the process has ended first
)

// typeChunk is the type of the events that are chunks.
const typeChunk = "chunk"

// prefix begins the names of the streams in the Log.
const prefix = "genkit:"

// Manager implements streaming.StreamManager. It is safe for concurrent use and needs no Close.
type Manager struct{ log *reprise.Log }

var _ streaming.StreamManager = (*Manager)(nil)

// Open returns a Manager. Its streams belong to the default tenant of log, and their names begin with "genkit:". How
// much of them is kept, and how long after their end, is what the retention of log says.
//
// If the store of log belongs to this process alone, the streams that an earlier process has left open end as lost.
// Streams in a shared store may belong to another replica: give log reprise.Options.MaxIdle, which removes those
// that get no chunks.
func Open(ctx context.Context, log *reprise.Log) (*Manager, error) {
	m := &Manager{log}
	if log.Shared() {
		return m, nil
	}
	q := reprise.ListQuery{Tenant: reprise.DefaultTenant, Namespace: prefix, Limit: 1000, Open: true}
	for {
		page, err := log.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Streams {
			s, err := log.Stream(ctx, page.Streams[i].Key)
			if err == nil {
				_, err = s.End(ctx, outcomeLost, failure(core.UNAVAILABLE, "the process that wrote it has ended"))
			}
			if err != nil && !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, reprise.ErrEnded) {
				return nil, err
			}
		}
		if q.After = page.Next; q.After == "" {
			return m, nil
		}
	}
}

// failed is the data of the last event of a stream that is not done.
type failed struct {
	Status  core.StatusName `json:"status"`
	Message string          `json:"message"`
}

func failure(status core.StatusName, message string) reprise.Event {
	text, err := json.Marshal(failed{status, message})
	if err != nil {
		panic(err) // strings
	}
	return reprise.Event{Format: reprise.FormatJSON, Data: text}
}

// refuse returns an error of ours as Genkit knows it.
func refuse(err error) error {
	status := core.INTERNAL
	switch {
	case err == nil:
		return nil
	case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
		status = core.NOT_FOUND
	case errors.Is(err, reprise.ErrEnded):
		status = core.FAILED_PRECONDITION
	case errors.Is(err, reprise.ErrInvalid):
		status = core.INVALID_ARGUMENT
	case errors.Is(err, reprise.ErrQuota):
		status = core.RESOURCE_EXHAUSTED
	case errors.Is(err, reprise.ErrUnavailable):
		status = core.UNAVAILABLE
	}
	return core.NewPublicError(status, err.Error(), nil)
}

func key(id string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: prefix + id}
}

// Open implements streaming.StreamManager. The error has the status ALREADY_EXISTS if there is a stream of this id, and
// INVALID_ARGUMENT if the Log takes no such name.
func (m *Manager) Open(ctx context.Context, id string) (streaming.StreamInput, error) {
	s, created, err := m.log.Create(ctx, key(id), reprise.StreamConfig{})
	if err != nil {
		return nil, refuse(err)
	}
	if !created {
		return nil, core.NewPublicError(core.ALREADY_EXISTS, "a stream of this id exists", nil)
	}
	return &input{stream: s}, nil
}

// input implements streaming.StreamInput.
type input struct {
	stream *reprise.Stream

	mu     sync.Mutex
	closed bool
	// lost is why a chunk was not written. Genkit ignores the error of Write.
	lost error
}

var errClosed = core.NewPublicError(core.FAILED_PRECONDITION, "the writer of this stream is closed", nil)

// Write implements streaming.StreamInput: it returns when the store has the chunk. After an error the stream cannot be
// done.
func (in *input) Write(ctx context.Context, chunk json.RawMessage) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return errClosed
	}
	event := reprise.Event{Type: typeChunk, Format: reprise.FormatJSON, Data: chunk}
	_, err := in.stream.Appender(ctx, nil).Append(event)
	if err != nil && in.lost == nil {
		in.lost = err
	}
	return refuse(err)
}

// Done implements streaming.StreamInput. Its readers get DATA_LOSS if a chunk could not be written.
func (in *input) Done(ctx context.Context, output json.RawMessage) error {
	return in.end(ctx, outcomeDone, reprise.Event{Format: reprise.FormatJSON, Data: output})
}

// Error implements streaming.StreamInput.
func (in *input) Error(ctx context.Context, cause error) error {
	status, message := core.INTERNAL, "unknown error"
	if cause != nil {
		message = cause.Error()
	}
	if public, ok := errors.AsType[*core.UserFacingError](cause); ok {
		status, message = public.Status, public.Message
	}
	if known, ok := errors.AsType[*core.GenkitError](cause); ok {
		status, message = known.Status, known.Message
	}
	return in.end(ctx, outcomeError, failure(status, message))
}

func (in *input) end(ctx context.Context, outcome string, last reprise.Event) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return errClosed
	}
	in.closed = true
	if in.lost != nil {
		outcome, last = outcomeError, failure(core.DATA_LOSS, "a chunk was not written: "+in.lost.Error())
	}
	_, err := in.stream.Appender(ctx, nil).End(outcome, last)
	return refuse(err)
}

// Close implements streaming.StreamInput. It writes nothing: readers of a stream that is neither done nor failed wait.
func (in *input) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	return nil
}

// Subscribe implements streaming.StreamManager. The channel gets all chunks that the stream has and will have, however
// slowly they are taken, and is closed after the last event, when ctx ends, or when the reader unsubscribes. It has no
// last event then. The error has the status NOT_FOUND if there is no such stream.
func (m *Manager) Subscribe(ctx context.Context, id string) (<-chan streaming.StreamEvent, func(), error) {
	s, err := m.log.Stream(ctx, key(id))
	if errors.Is(err, reprise.ErrInvalid) { // no stream has such a name
		err = reprise.ErrNotFound
	}
	if err != nil {
		return nil, nil, refuse(err)
	}
	reader, err := s.Reader(ctx, reprise.Earliest())
	if err != nil {
		return nil, nil, refuse(err)
	}
	if reader.Cursor().Seq > 0 {
		_ = reader.Close() // it has read nothing
		return nil, nil, core.NewPublicError(core.DATA_LOSS, "the beginning of the stream is no longer kept", nil)
	}
	ctx, stop := context.WithCancel(ctx)
	events, over := make(chan streaming.StreamEvent), make(chan struct{})
	go func() {
		defer close(over)
		defer close(events)
		defer reader.Close()
		follow(ctx, reader, events)
	}()
	return events, func() { stop(); <-over }, nil
}

// follow sends what a stream has until it has ended, or ctx.
func follow(ctx context.Context, reader *reprise.Reader, to chan<- streaming.StreamEvent) {
	send := func(e streaming.StreamEvent) bool {
		select {
		case to <- e:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		events, err := reader.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				send(streaming.StreamEvent{Type: streaming.StreamEventError, Err: gone(err)})
			}
			return
		}
		for e := range events.All() {
			event := streaming.StreamEvent{Type: streaming.StreamEventChunk, Chunk: json.RawMessage(e.Data)}
			if e.Type == reprise.TypeEnd {
				event = last(e.Data, reader.Info().End)
			}
			if !send(event) || e.Type == reprise.TypeEnd {
				return
			}
		}
	}
}

// gone returns why a reader cannot go on.
func gone(err error) error {
	if errors.Is(err, reprise.ErrUnavailable) {
		return refuse(err)
	}
	return core.NewPublicError(core.DATA_LOSS, "what comes next is no longer kept: "+err.Error(), nil)
}

// last is the event for the end of a stream.
func last(data []byte, how *reprise.End) streaming.StreamEvent {
	if how != nil && how.Outcome == outcomeDone {
		return streaming.StreamEvent{Type: streaming.StreamEventDone, Output: data}
	}
	why := failed{core.UNKNOWN, "the stream was ended by something else"}
	_ = json.Unmarshal(data, &why) // else it was
	return streaming.StreamEvent{
		Type: streaming.StreamEventError, Err: core.NewPublicError(why.Status, why.Message, nil),
	}
}
