package durable

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/grants"
	"reprise/internal/problem"
	"reprise/internal/web"
)

const (
	// pageBytes ends the content of a response early. The rest is read with another request.
	pageBytes = 1 << 20
	// pollFor is how long a long poll waits.
	pollFor = 20 * time.Second
)

// read answers a GET or HEAD.
func (a API) read(x *web.Exchange) error {
	key, err := keyOf(x, x.R.PathValue("path"))
	if err != nil {
		return err
	}
	if err := grants.MayReadStream(x, key); err != nil {
		return err
	}
	rd, err := parseReading(x.R)
	if err != nil {
		return err
	}
	s, err := a.find(x.R.Context(), key)
	if err != nil {
		return err
	}
	if x.R.Method == http.MethodHead {
		return a.head(x, s)
	}
	if err := s.use(x.R.Context()); err != nil {
		return err
	}
	switch first := s.first(); {
	case rd.now:
		rd.from = s.tail()
	case rd.start, rd.from == 0 && first == s.meta.base():
		rd.from = first
	}
	if s.first() > 0 {
		x.W.Header().Set(earliest, offsetOf(s.first()))
	}
	reader, err := s.open(x.R.Context(), rd.from)
	if err != nil {
		return err
	}
	switch rd.live {
	case liveSSE:
		return a.follow(x, s, &rd, reader) // which closes the reader
	case longPoll:
		defer reader.Close()
		return a.poll(x, s, &rd, reader)
	}
	defer reader.Close()
	return s.page(x, &rd, reader)
}

// open opens a reader at a position.
func (s *stream) open(ctx context.Context, from uint64) (*reprise.Reader, error) {
	switch {
	case from < s.meta.base():
		return nil, problem.New(problem.CodeCursorExpired, "the events behind the offset are no longer kept")
	case from > s.tail():
		return nil, problem.New(problem.CodeCursorExpired,
			"the stream does not reach the offset, which belongs to an earlier stream of the name")
	}
	return s.Reader(ctx, reprise.After(s.Cursor(from-s.meta.base())))
}

// fill reads what there is, up to about pageBytes. next is the position behind it.
func (s *stream) fill(ctx context.Context, reader *reprise.Reader, from uint64) (c content, next uint64, err error) {
	c.json, next = s.meta.isJSON(), from
	for {
		events, err := reader.Poll(ctx)
		if errors.Is(err, reprise.ErrEnded) {
			return c, next, nil
		}
		if err != nil || events.Len() == 0 {
			return c, next, err
		}
		for e := range events.All() {
			if len(c.text) > 0 && len(c.text)+len(e.Data) > pageBytes {
				return c, next, reader.Seek(reprise.After(s.Cursor(next - s.meta.base())))
			}
			if e.Type != reprise.TypeEnd {
				next = e.Seq + s.meta.base()
			}
			c.add(&e)
		}
	}
}

// page answers with what there is.
func (s *stream) page(x *web.Exchange, rd *reading, reader *reprise.Reader) error {
	c, next, err := s.fill(x.R.Context(), reader, rd.from)
	if err != nil {
		return err
	}
	s.info = reader.Info()
	h := x.W.Header()
	if !rd.now {
		tag := s.tag(rd.from, next)
		h.Set("ETag", tag)
		h.Set("Cache-Control", "private, no-cache")
		if next < s.tail() { // another response would be the same
			h.Set("Cache-Control", "private, max-age=60, stale-while-revalidate=300")
		}
		if matches(x.R.Header.Get("If-None-Match"), tag) {
			s.tellPage(h, next)
			x.W.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return s.send(x, &c, next)
}

// tag is the ETag of what lies between two positions.
func (s *stream) tag(from, next uint64) string {
	tag := `"` + string(s.info.Epoch) + ":" + strconv.FormatUint(from, 10) + ":" + strconv.FormatUint(next, 10)
	if s.info.End != nil && next >= s.tail() {
		tag += ":closed"
	}
	return tag + `"`
}

// matches reports whether the header If-None-Match names a tag.
func matches(header, tag string) bool {
	for each := range strings.SplitSeq(header, ",") {
		if each = strings.TrimSpace(each); each == "*" || strings.TrimPrefix(each, "W/") == tag {
			return true
		}
	}
	return false
}

// tellPage adds the headers of a response that ends at a position.
func (s *stream) tellPage(h http.Header, next uint64) {
	h.Set(nextOffset, offsetOf(next))
	if next >= s.tail() {
		h.Set(upToDate, isTrue)
		s.tellClosed(h)
	}
}

func (s *stream) send(x *web.Exchange, c *content, next uint64) error {
	h := x.W.Header()
	s.tellPage(h, next)
	h.Set("Content-Type", s.meta.ContentType)
	body := c.body()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.W.WriteHeader(http.StatusOK)
	_, _ = x.Steady(false).Write(body) // the client may have disconnected
	return nil
}

// poll answers a long poll: with what there is, or what comes within pollFor.
func (a API) poll(x *web.Exchange, s *stream, rd *reading, reader *reprise.Reader) error {
	if err := a.Reads.Enter(x); err != nil {
		return err
	}
	x.EndWithServer()
	ctx := x.R.Context()
	timeout := time.NewTimer(pollFor)
	defer timeout.Stop()
	for {
		changed := reader.Changed()
		c, next, err := s.fill(ctx, reader, rd.from)
		if err != nil {
			return err
		}
		s.info = reader.Info()
		h := x.W.Header()
		if c.count > 0 || s.info.End != nil && next >= s.tail() {
			if c.count > 0 {
				h.Set(cursorName, nextCursor(rd.cursor, time.Now()))
				return s.send(x, &c, next)
			}
			s.tellPage(h, next)
			return x.Done()
		}
		rd.from = next
		select {
		case <-changed:
			continue
		case <-timeout.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.stay(ctx); err != nil {
			return err
		}
		s.tellPage(h, next)
		h.Set(cursorName, nextCursor(rd.cursor, time.Now()))
		return x.Done()
	}
}
