//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// caller sends requests to the replicas, each through the proxy in front of it.
type caller struct {
	bases []string // a URL for each replica
	token string
	http  *http.Client
}

func newCaller(bases []string, token string) *caller {
	return &caller{bases: bases, token: token, http: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 50, IdleConnTimeout: 10 * time.Second,
	}}}
}

// request is a request to any replica.
type request struct {
	method, path string
	header       map[string]string
	body         []byte
}

// answer is a response that was read completely.
type answer struct {
	status int
	header http.Header
	body   []byte
	problem
}

// problem is the body of a refusal.
type problem struct {
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	Earliest string `json:"earliest"`
	Fork     string `json:"fork"`
}

// passing reports whether the request may succeed later.
func (a *answer) passing() bool {
	return a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests
}

// open sends a request; the caller closes the body.
func (c *caller) open(ctx context.Context, replica int, r *request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.bases[replica%len(c.bases)]+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	return c.http.Do(req)
}

// callTimeout bounds a call: a little more than the 10 seconds that a server waits for its store.
const callTimeout = 12 * time.Second

// call sends a request and reads the whole answer.
func (c *caller) call(ctx context.Context, replica int, r *request) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.open(ctx, replica, r)
	if err != nil {
		return nil, err
	}
	return readAnswer(resp)
}

func readAnswer(resp *http.Response) (*answer, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: body}
	if resp.StatusCode >= http.StatusBadRequest {
		_ = json.Unmarshal(body, &a.problem) // other bodies have no code
	}
	return a, nil
}

// item is an event of a stream, or the notice of a gap.
type item struct {
	Type   string          `json:"type"`
	Cursor string          `json:"cursor"`
	Seq    uint64          `json:"seq"`
	Data   json.RawMessage `json:"data"`

	// Of a gap.
	Code      string  `json:"code"`
	Missed    uint64  `json:"missed"`
	Fork      string  `json:"fork"`
	TakenBack *uint64 `json:"taken_back"`
}

// id returns the id that the writer has given to the event.
func (e *item) id() string {
	if e.Type == typeEnd {
		return typeEnd
	}
	var id string
	if json.Unmarshal(e.Data, &id) != nil {
		return "?" + string(e.Data)
	}
	return id
}

const (
	typeEnd = "end"
	typeGap = "gap"
)

// page is one response in the paged form.
type page struct {
	Events     []item `json:"events"`
	NextCursor string `json:"next_cursor"`
	HasMore    bool   `json:"has_more"`
	Ended      bool   `json:"ended"`
}

// position returns the seq in a cursor. Cursors are opaque to programs, but this checker looks into them.
func position(cursor string) uint64 {
	seq, _, _ := strings.Cut(cursor, ".")
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
