package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// StreamConfig is the configuration of a new stream.
type StreamConfig struct {
	Retention Retention         `json:"retention,omitzero"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Stream is a stream as the server shows it.
type Stream struct {
	Name string `json:"name"`
	// Status is "open" or "ended". Outcome is "", and Ended and Expires are zero, until the end.
	Status    string            `json:"status"`
	Outcome   Outcome           `json:"outcome"`
	Labels    map[string]string `json:"labels"`
	Retention Retention         `json:"retention"`
	Created   Time              `json:"created"`
	Ended     Time              `json:"ended"`
	Expires   Time              `json:"expires"`
	Window    Window            `json:"window"`
	// Events and Bytes count the kept events.
	Events uint64 `json:"events"`
	Bytes  int64  `json:"bytes"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// CreateStream creates a stream, or finds the existing one if its configuration is equal.
// Otherwise the error is reprise.ErrConflict.
func (c *Client) CreateStream(ctx context.Context, name string, config StreamConfig) (Stream, error) {
	op := "create stream " + name
	if err := checkName(op, name); err != nil {
		return Stream{}, err
	}
	r, err := jsonRequest(op, http.MethodPut, streamPath(name, ""), config)
	if err != nil {
		return Stream{}, err
	}
	return answer[Stream](ctx, c, r)
}

// Change is a change of a stream or of an execution, which may have ended. Members that are nil stay as they are.
type Change struct {
	Retention RetentionChange `json:"retention,omitzero"`
	// Labels are set, or removed where they are nil.
	Labels map[string]*string `json:"labels,omitempty"`
}

// RetentionChange has the members of Retention. 0 stands for the default of the server.
type RetentionChange struct {
	MaxEvents  *int64    `json:"max_events,omitempty"`
	MaxBytes   *int64    `json:"max_bytes,omitempty"`
	MaxAge     *Duration `json:"max_age,omitempty"`
	MaxIdle    *Duration `json:"max_idle,omitempty"`
	MaxAgeEach *Duration `json:"max_age_each,omitempty"`
}

// ConfigureStream changes the retention and the labels of a stream. A larger bound takes effect at the next append, a
// smaller one removes the oldest events at once, and a changed MaxAge moves the expiry of a stream that has ended.
func (c *Client) ConfigureStream(ctx context.Context, name string, change Change) (Stream, error) {
	op := "configure stream " + name
	if err := checkName(op, name); err != nil {
		return Stream{}, err
	}
	r, err := jsonRequest(op, http.MethodPatch, streamPath(name, ""), change)
	if err != nil {
		return Stream{}, err
	}
	return answer[Stream](ctx, c, r)
}

// TrimStream removes the events up to a cursor, or all of them if after is "". The stream goes on: its next event gets
// the next seq, and readers that are behind get a gap.
func (c *Client) TrimStream(ctx context.Context, name, after string) (Stream, error) {
	op := "trim stream " + name
	if err := checkName(op, name); err != nil {
		return Stream{}, err
	}
	r, err := jsonRequest(op, http.MethodPost, streamPath(name, "/trim"), struct {
		After string `json:"after,omitempty"`
	}{after})
	if err != nil {
		return Stream{}, err
	}
	return answer[Stream](ctx, c, r)
}

// ShowStream returns the state of a stream.
func (c *Client) ShowStream(ctx context.Context, name string) (Stream, error) {
	op := "show stream " + name
	if err := checkName(op, name); err != nil {
		return Stream{}, err
	}
	return answer[Stream](ctx, c, &request{op: op, method: http.MethodGet, path: streamPath(name, "")})
}

// RemoveStream removes a stream without a trace. Its readers get an error as if it had never existed.
func (c *Client) RemoveStream(ctx context.Context, name string) error {
	return c.remove(ctx, "remove stream "+name, name, streamPath(name, ""))
}

// StreamList is one page of streams, newest first. NextCursor is "" on the last page.
type StreamList struct {
	Streams    []Stream `json:"streams"`
	NextCursor string   `json:"next_cursor"`
}

// ListStreams returns one page of streams. limit is 1 to 1,000, 0 for 100; cursor is
// StreamList.NextCursor of the page before, or "".
func (c *Client) ListStreams(ctx context.Context, limit int, cursor string) (StreamList, error) {
	return answer[StreamList](ctx, c, &request{
		op: "list streams", method: http.MethodGet, path: "/v1/streams", query: listQuery(limit, cursor),
	})
}

// PageOptions select a page of events.
type PageOptions struct {
	// After is a cursor, "earliest" or "" for the first kept event, or "tail".
	After string
	// Limit is 1 to 1,000 events; 0 is 100.
	Limit int
	// Wait holds the request until there is an event, at most 60 s.
	Wait time.Duration
	// Types are the event types to get. Default: all.
	Types []string

	gapEvent bool // instead of a refusal
}

// Page is some events of a stream.
type Page struct {
	Events []Event
	// NextCursor is the value of After for the next page.
	NextCursor string
	// HasMore: the next page already has events.
	HasMore bool
	// Ended: the stream has ended, and there are no events after the last page.
	Ended  bool
	Window Window
}

// UnmarshalJSON reads the answer of the server.
func (p *Page) UnmarshalJSON(text []byte) error {
	var w struct {
		Events     []json.RawMessage `json:"events"`
		NextCursor string            `json:"next_cursor"`
		HasMore    bool              `json:"has_more"`
		Ended      bool              `json:"ended"`
		Window     Window            `json:"window"`
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*p = Page{make([]Event, len(w.Events)), w.NextCursor, w.HasMore, w.Ended, w.Window}
	for i, object := range w.Events {
		var e wireEvent
		if err := json.Unmarshal(object, &e); err != nil {
			return err
		}
		var err error
		if p.Events[i], err = e.event(object); err != nil {
			return err
		}
	}
	return nil
}

// Page returns one page of the events of an execution. A cursor that has fallen
// out of the window is refused as *reprise.WindowError. opts may be nil.
func (c *Client) Page(ctx context.Context, id string, opts *PageOptions) (Page, error) {
	op := "read execution " + id
	if err := checkName(op, id); err != nil {
		return Page{}, err
	}
	return c.page(ctx, op, executionPath(id, ""), opts)
}

// PageStream is like Page for a stream that is not an execution.
func (c *Client) PageStream(ctx context.Context, name string, opts *PageOptions) (Page, error) {
	op := "read stream " + name
	if err := checkName(op, name); err != nil {
		return Page{}, err
	}
	return c.page(ctx, op, streamPath(name, ""), opts)
}

func (c *Client) page(ctx context.Context, op, path string, opts *PageOptions) (Page, error) {
	r := &request{op: op, method: http.MethodGet, path: path + "/events", query: url.Values{}, header: http.Header{}}
	c.wantEvents(r.header)
	if opts != nil {
		setText(r.query, "after", opts.After)
		setText(r.query, "types", strings.Join(opts.Types, ","))
		if opts.gapEvent {
			r.query.Set("gap", "event")
		}
		if opts.Limit != 0 {
			r.query.Set("limit", strconv.Itoa(opts.Limit))
		}
		if opts.Wait > 0 {
			r.query.Set("wait", opts.Wait.String())
			r.patient = true
		}
	}
	return answer[Page](ctx, c, r)
}
