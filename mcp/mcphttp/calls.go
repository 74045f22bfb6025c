package mcphttp

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"reprise"
	"reprise/internal/listing"
)

const (
	// maxAsked is the number of requests of one exchange that are described.
	maxAsked = 16
	// maxAskedText is the maximum length of the texts that describe a request, in bytes.
	maxAskedText = 128
)

// askedMeta describes a request in the metadata of the stream of its exchange.
type askedMeta struct {
	Method string `json:"method"`
	Name   string `json:"name,omitempty"`
}

// add records a request.
func (c *callsMeta) add(m *Message) {
	c.Calls = append(c.Calls, json.RawMessage(m.ID))
	if len(c.Asked) >= maxAsked {
		return
	}
	var named struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	_ = json.Unmarshal(m.Params, &named) // a request need not name anything
	if named.Name == "" {
		named.Name = named.URI
	}
	c.Asked = append(c.Asked, askedMeta{clip(m.Method), clip(named.Name)})
}

// clip shortens a text to maxAskedText bytes, between two runes.
func clip(text string) string {
	if len(text) <= maxAskedText {
		return text
	}
	end := maxAskedText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// CallInfo describes a kept call of a session: one POST of its client, which has one request except in version
// 2025-03-26.
type CallInfo struct {
	// ID names the call within its session.
	ID string
	// Method is the method of the first request, and Name the tool, prompt or resource in it, or "". Calls that an
	// earlier version of this package has kept have neither.
	Method, Name string
	// Requests is the number of requests.
	Requests int
	// Created is when the call was kept. Ended is when the last response was kept; it is zero before.
	Created, Ended time.Time
	// Events is the number of kept messages to the client, and Bytes their size.
	Events uint64
	Bytes  int64
}

// CallPage is a page of calls, the newest first.
type CallPage struct {
	Calls []CallInfo
	// Next is for the next page, "" if this is the last one.
	Next string
}

// Calls lists the kept calls of a session: at most limit of them, 1 to 1,000, after the Next of the previous page.
// Calls that were answered at once, or whose retention has ended, are not kept. A page may be shorter although more
// calls follow. It returns the same errors as SessionInfo.
func (h *Handler) Calls(ctx context.Context, tenant reprise.Tenant, session string, limit int, after string) (
	CallPage, error,
) {
	if _, err := h.SessionInfo(ctx, tenant, session); err != nil {
		return CallPage{}, err
	}
	page := CallPage{Calls: []CallInfo{}, Next: after}
	for {
		q := reprise.ListQuery{Tenant: tenant, Namespace: h.streams, After: page.Next}
		calls, next, err := listing.Part(ctx, h.log, q, limit-len(page.Calls), h.callsOf(session))
		if err != nil {
			return CallPage{}, err
		}
		page.Calls, page.Next = append(page.Calls, calls...), next
		if next == "" || len(page.Calls) >= limit {
			return page, nil
		}
	}
}

// callsOf returns a function that describes the streams of a session that are calls.
func (h *Handler) callsOf(session string) func(*reprise.StreamInfo) (CallInfo, bool) {
	return func(info *reprise.StreamInfo) (CallInfo, bool) {
		of, name, _ := strings.Cut(info.Key.Name[len(h.streams):], "/")
		if of != session || name == standalone {
			return CallInfo{}, false
		}
		return describeCall(name, info), true
	}
}

// describeCall describes the call whose messages are kept in a stream.
func describeCall(name string, info *reprise.StreamInfo) CallInfo {
	c := CallInfo{
		ID: name, Created: info.Created, Bytes: info.Bytes, Events: info.Tail + 1 - info.Earliest,
	}
	if info.End != nil {
		c.Ended = info.End.Time
	}
	var meta callsMeta
	if err := json.Unmarshal(info.Config.Meta, &meta); err != nil {
		return c
	}
	c.Requests = len(meta.Calls)
	if len(meta.Asked) > 0 {
		c.Method, c.Name = meta.Asked[0].Method, meta.Asked[0].Name
	}
	return c
}
