package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"reprise/internal/problem"
)

// NewEvent is an event to publish. Data is one JSON value; nil means null.
type NewEvent struct {
	// Type is 1 to 64 bytes of letters, digits, '.', '_' and '-'; "" is "message".
	Type string          `json:"type,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Published describes the events of a publish.
type Published struct {
	// First and Last are the seqs. Both are 0 for a duplicate whose seqs are no longer known.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Cursor is just after Last.
	Cursor string `json:"cursor"`
	// Duplicate: an earlier attempt, whose answer was lost, had published the events.
	Duplicate bool `json:"duplicate,omitempty"`
}

// Producer publishes to one stream, in order, and each event once, however often a
// request has to be sent. It is safe for concurrent use. It has one request under way at a time, and calls of Publish
// that wait for it go together in the next one. A stream remembers the 64 newest producers, so keep a Producer for as
// long as you publish.
type Producer struct {
	c    *Client
	name string
	id   string

	turn       chan struct{} // holds a token while a goroutine publishes
	epoch, seq uint64        // of the next request

	mu    sync.Mutex
	queue []*publication // not sent yet, in order
}

// Producer returns a Producer for a stream. The stream must exist when it publishes.
func (c *Client) Producer(stream string) *Producer {
	return &Producer{c: c, name: stream, id: rand.Text(), turn: make(chan struct{}, 1)}
}

// Publish appends events, next to each other, and returns when they are kept. Either
// all of them are appended or none. If it returns an error for which Retryable is true, or the
// cause of a cancelled ctx, the events may have been appended. After any other error of the first attempt
// ([Error.Tries] is 1) they were not; after one of a later attempt, an earlier one may have appended them.
func (p *Producer) Publish(ctx context.Context, events ...NewEvent) (Published, error) {
	r, err := jsonRequest("publish to "+p.name, http.MethodPost, streamPath(p.name, "/events"),
		map[string][]NewEvent{"events": events})
	if err != nil {
		return Published{}, err
	}
	list := bytes.TrimSuffix(bytes.TrimPrefix(r.body, []byte(`{"events":[`)), []byte("]}"))
	if len(events) == 0 || len(events) > maxTogether {
		list = nil
	}
	return p.send(ctx, r, list, len(events))
}

// PublishBytes is like Publish for one event with arbitrary bytes as data.
func (p *Producer) PublishBytes(ctx context.Context, eventType string, data []byte) (Published, error) {
	query := url.Values{}
	setText(query, "type", eventType)
	if data == nil {
		data = []byte{}
	}
	return p.send(ctx, &request{
		op: "publish to " + p.name, method: http.MethodPost, path: streamPath(p.name, "/events"), query: query,
		header: http.Header{"Content-Type": {bytesType}}, body: data,
	}, nil, 1)
}

// End ends the stream with an outcome, "completed", "failed" or "cancelled", and data, which
// is one JSON value or nil. The error is reprise.ErrEnded if the stream has ended.
func (p *Producer) End(ctx context.Context, outcome string, data json.RawMessage) (Published, error) {
	r, err := jsonRequest("end stream "+p.name, http.MethodPost, streamPath(p.name, "/end"), struct {
		Outcome string          `json:"outcome"`
		Data    json.RawMessage `json:"data,omitempty"`
	}{outcome, data})
	if err != nil {
		return Published{}, err
	}
	return p.send(ctx, r, nil, 1)
}

// PublishOnce appends events to a stream, all of them or none, unless a publish under the same key was already made:
// then it returns that one, with Duplicate. So a program that was started again can repeat its publish, which takes a
// [Producer] only for as long as it runs. key is 1 to 255 bytes and counts for the stream. The server remembers the
// keys of 24 hours, up to 100,000 for each tenant. The error is reprise.ErrConflict if the key was used for other
// events.
func (c *Client) PublishOnce(ctx context.Context, stream, key string, events ...NewEvent) (Published, error) {
	r, err := jsonRequest("publish to "+stream, http.MethodPost, streamPath(stream, "/events"),
		map[string][]NewEvent{"events": events})
	if err == nil {
		err = checkName(r.op, stream)
	}
	if err != nil {
		return Published{}, err
	}
	r.header.Set("Idempotency-Key", key)
	return answer[Published](ctx, c, r)
}

// take waits until no other call publishes.
func (p *Producer) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sendNow sends one numbered request, and retries it with the same number. The caller has the turn.
func (p *Producer) sendNow(ctx context.Context, r *request) (Published, error) {
	r.header.Set("Producer-Id", p.id)
	r.header.Set("Producer-Epoch", strconv.FormatUint(p.epoch, 10))
	r.header.Set("Producer-Seq", strconv.FormatUint(p.seq, 10))
	published, err := answer[Published](ctx, p.c, r)
	refused, _ := problem.As(err)
	switch {
	case err == nil:
		p.seq++
	case decided(err) && refused.Code != problem.CodeConflict:
		// The server has decided and appended nothing: the number is still free.
	default:
		// It may have been appended, or the server has forgotten where we were. Another request under the same number
		// would be taken for it and lost, and one that is still under way must not come after those that follow: a
		// new epoch fences it off.
		p.epoch, p.seq = p.epoch+1, 0
	}
	return published, err
}
