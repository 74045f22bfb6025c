package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/problem"
	"reprise/internal/web"
)

// wanted is the stream that a PUT asks for.
type wanted struct {
	meta
	closed bool
}

const (
	defaultType = "application/octet-stream"
	// maxType bounds the content type of a stream, in bytes.
	maxType = 255
)

// parseWanted reads the headers of a PUT.
func (a API) parseWanted(h http.Header) (w wanted, err error) {
	w.Durable, w.ContentType = metaVersion, h.Get("Content-Type")
	w.closed = strings.EqualFold(h.Get(closed), isTrue)
	ttl, expires := h.Get(ttlName), h.Get(expiresAt)
	switch {
	case ttl != "" && expires != "":
		return w, web.BadRequest(ttlName, "a stream has "+ttlName+" or "+expiresAt)
	case ttl != "":
		n, ok := decimal(ttl)
		if !ok || n > maxTTL {
			return w, web.BadRequest(ttlName, "a number of seconds is taken, without a sign or leading zeros")
		}
		w.TTL = int64(n)
	case expires != "":
		if at, err := time.Parse(time.RFC3339Nano, expires); err != nil || at.Before(time.Now()) {
			return w, web.BadRequest(expiresAt, "a time to come is taken, as in RFC 3339")
		}
		w.Expires = expires
	}
	if w.Fork, err = a.parseFork(h); err != nil {
		return w, err
	}
	switch {
	case len(w.ContentType) > maxType:
		return w, web.BadRequest("Content-Type", fmt.Sprintf("at most %d bytes are taken", maxType))
	case w.ContentType == "" && w.Fork == nil:
		w.ContentType = defaultType
	}
	return w, nil
}

// maxTTL is the longest TTL, in seconds: a hundred years.
const maxTTL = 100 * 365 * 24 * 3600

// keptClosed is how long a closed stream is kept that has no TTL and no time at which it expires: until it is removed.
const keptClosed = maxTTL * time.Second

// decimal parses a number that has no sign and no leading zeros.
func decimal(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}

// same reports whether a stream is what was asked for.
func (w *wanted) same(s *stream) bool {
	m := &s.meta
	if w.ContentType != "" && mediaType(w.ContentType) != mediaType(m.ContentType) || w.closed != (s.info.End != nil) {
		return false
	}
	if inherits := m.Fork != nil && m.Fork.Lifetime; w.TTL != m.TTL || w.Expires != m.Expires {
		if !inherits || w.TTL != 0 || w.Expires != "" {
			return false
		}
	}
	if w.Fork == nil || m.Fork == nil {
		return w.Fork == m.Fork
	}
	return w.Fork.From == m.Fork.From && w.Fork.Offset == m.Fork.Offset && w.Fork.Sub == m.Fork.Sub
}

// create answers a PUT.
func (a API) create(x *web.Exchange) error {
	key, err := keyOf(x, x.R.PathValue("path"))
	if err != nil {
		return err
	}
	if err := x.MayMake(identity.ScopePublish, key.Name, "stream"); err != nil {
		return err
	}
	want, err := a.parseWanted(x.R.Header)
	if err != nil {
		return err
	}
	body, err := x.ReadBody(maxBody)
	if err != nil {
		return err
	}
	s, err := a.find(x.R.Context(), key)
	made := false
	if errors.Is(err, reprise.ErrNotFound) {
		if made, err = a.make(x, key, &want, body); err != nil {
			return err
		}
		s, err = a.find(x.R.Context(), key)
	}
	switch {
	case made && err == nil:
		x.W.Header().Set("Location", location(x.R))
		return s.created(x, http.StatusCreated)
	case !made && errors.Is(err, reprise.ErrNotFound):
		return conflict("a stream of another kind has the name")
	case errors.Is(err, errRemoved):
		return conflict("the stream was removed; its name is kept for its forks")
	case err != nil:
		return err
	case !want.same(s):
		return conflict("the stream exists with another configuration")
	}
	if err := s.use(x.R.Context()); err != nil {
		return err
	}
	return s.created(x, http.StatusOK)
}

func (s *stream) created(x *web.Exchange, status int) error {
	h := x.W.Header()
	s.tell(h)
	h.Set("Content-Type", s.meta.ContentType)
	x.W.WriteHeader(status)
	return nil
}

// location returns the address of the stream that a request is for.
func location(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + r.Host + r.URL.EscapedPath()
}

// make makes a stream with its first content, in one step. made is false if it exists.
func (a API) make(x *web.Exchange, key reprise.StreamKey, want *wanted, body []byte) (made bool, err error) {
	ctx := x.R.Context()
	var opts reprise.CreateOptions
	if want.Fork != nil {
		if opts.Events, err = a.inherit(x, want); err != nil {
			return false, err
		}
	}
	if len(body) > 0 {
		own, err := messages(want.ContentType, body)
		if err != nil {
			return false, err
		}
		opts.Events = append(opts.Events, own...)
	}
	if want.closed {
		opts.Events, opts.Outcome = append(opts.Events, reprise.Event{}), outcomeClosed
	}
	config := reprise.StreamConfig{
		Retention: reprise.Retention{MaxAge: keptClosed}, Meta: want.encode(),
		Labels: map[string]string{reprise.AccountLabel: x.Who.Name},
	}
	if expires := want.expires(); expires != "" {
		config.Labels[reprise.ExpiresLabel] = expires
	}
	if want.Fork != nil {
		if err := a.addFork(ctx, key, want.Fork, x.Who.Name); err != nil {
			return false, err
		}
	}
	_, made, err = a.Log.CreateWith(ctx, opts, key, config)
	if errors.Is(err, reprise.ErrConflict) { // it exists by now, or is of another kind
		return false, nil
	}
	return made, tooMuch(err)
}

// tooMuch tells a client that its body is too large for one append.
func tooMuch(err error) error {
	if errors.Is(err, reprise.ErrInvalid) {
		return tooLarge("%v", err)
	}
	return err
}

// fork says where a stream comes from.
type fork struct {
	// From is the path of the source, Offset as it was asked for, and Sub how many messages or bytes behind it.
	From   string `json:"from"`
	Offset string `json:"offset,omitempty"`
	Sub    uint64 `json:"sub,omitempty"`
	// Base is how much higher positions are than seqs: the events that the source did not keep.
	Base uint64 `json:"base,omitempty"`
	// ID tells this fork from others that had its name.
	ID string `json:"id"`
	// Lifetime: it has the TTL or the expiry of its source.
	Lifetime bool `json:"lifetime,omitempty"`
}

// parseFork reads the headers of a fork; nil if the stream is none.
func (a API) parseFork(h http.Header) (*fork, error) {
	from, offset, sub := h.Get(forkedFrom), h.Get(forkOffset), h.Get(forkSub)
	if from == "" {
		if offset != "" || sub != "" {
			return nil, web.BadRequest(forkedFrom, "an offset of a fork needs the stream that it is of")
		}
		return nil, nil
	}
	f := &fork{Offset: offset, ID: string(reprise.NewEpoch())}
	path, below := strings.CutPrefix(from, a.Prefix+"/")
	var err error
	if f.From, err = url.PathUnescape(path); err != nil || !below {
		return nil, web.BadRequest(forkedFrom, "the path of a stream of this server is taken: "+a.Prefix+"/name")
	}
	if _, ok := parseOffset(offset); !ok && offset != "" {
		return nil, web.BadRequest(forkOffset, "the text is not an offset of this server")
	}
	if sub != "" {
		var ok bool
		if f.Sub, ok = decimal(sub); !ok {
			return nil, web.BadRequest(forkSub, "a number is taken, without a sign or leading zeros")
		}
	}
	if f.Sub > 0 && offset == "" {
		return nil, web.BadRequest(forkSub, "it needs "+forkOffset)
	}
	return f, nil
}

// inherit completes what a fork is asked to be with what its source is, and returns the events that it copies.
func (a API) inherit(x *web.Exchange, want *wanted) ([]reprise.Event, error) {
	key, err := keyOf(x, want.Fork.From)
	if err != nil {
		return nil, err
	}
	if err := grants.MayReadStream(x, key); err != nil {
		return nil, err
	}
	source, err := a.find(x.R.Context(), key)
	if errors.Is(err, errRemoved) {
		return nil, conflict("the source was removed")
	}
	if err != nil {
		return nil, err
	}
	if want.ContentType != "" && mediaType(want.ContentType) != mediaType(source.meta.ContentType) {
		return nil, conflict("the source has the content type %s", source.meta.ContentType)
	}
	want.ContentType = cmp.Or(want.ContentType, source.meta.ContentType)
	if want.TTL == 0 && want.Expires == "" {
		want.TTL, want.Expires = source.meta.TTL, source.meta.Expires
		want.Fork.Lifetime = true
	}
	return source.copyFor(x.R.Context(), want.Fork)
}

// maxFork bounds what a fork copies, in bytes: it is made in one step.
const maxFork = maxBody

// copyFor returns the events of the source of a fork, up to its position.
func (s *stream) copyFor(ctx context.Context, f *fork) (events []reprise.Event, err error) {
	to := s.tail()
	if f.Offset != "" {
		if to, _ = parseOffset(f.Offset); to > s.tail() {
			return nil, web.BadRequest(forkOffset, "the source does not reach the offset")
		}
	}
	f.Base = s.first()
	if to < f.Base {
		return nil, problem.New(problem.CodeCursorExpired, "the source no longer keeps the events before the offset")
	}
	reader, err := s.Reader(ctx, reprise.After(s.Cursor(s.info.Earliest-1)))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	left, size := f.Sub, 0
	for at := f.Base; at < to || left > 0; {
		run, err := reader.Poll(ctx)
		if err != nil && !errors.Is(err, reprise.ErrEnded) {
			return nil, err
		}
		if run.Len() == 0 {
			return nil, web.BadRequest(forkSub, "the source does not reach so far behind the offset")
		}
		for e := range run.All() {
			part, used := reprise.Event{Time: e.Time, Type: e.Type, Data: e.Data, Format: e.Format}, uint64(0)
			if at >= to {
				if left == 0 || e.Type == reprise.TypeEnd {
					break
				}
				part, used = firstOf(&e, s.meta.isJSON(), left)
			}
			at, left, events = at+1, left-used, append(events, part)
			if size += len(part.Data) + len(part.Type) + eventRoom; size > maxFork {
				return nil, tooLarge("a fork copies at most %d bytes", maxFork)
			}
		}
	}
	return events, nil
}

// eventRoom is more than the log adds to an event.
const eventRoom = 16
