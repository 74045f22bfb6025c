package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/problem"
)

// formatID returns the id of the event at a cursor of a recording.
func formatID(name string, c reprise.Cursor) string { return name + ":" + c.String() }

// parseID returns the parts of an id of ours. ok is false for one of the backend.
func parseID(id string) (name string, at reprise.Cursor, ok bool) {
	name, text, ok := strings.Cut(id, ":")
	if !ok || len(name) != 26 {
		return "", at, false
	}
	at, err := reprise.ParseCursor(text)
	return name, at, err == nil
}

// notFound is the error for a recording that does not exist, or belongs to another sender.
func notFound() error { return fmt.Errorf("%w: there is no such recording", reprise.ErrNotFound) }

// recorded returns a recording of the sender of a request.
func (l *Relay) recorded(r *http.Request, name string) (*reprise.Stream, error) {
	s, err := l.log.Stream(r.Context(), l.stream(r, namespace+name))
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrInvalid) {
		return nil, notFound()
	}
	if err != nil {
		return nil, err
	}
	info, err := s.Info(r.Context())
	if err != nil {
		return nil, err
	}
	var m meta
	if json.Unmarshal(info.Config.Meta, &m) != nil || m.Principal != l.principal(r) {
		return nil, notFound()
	}
	return s, nil
}

// serveRecording answers at the address of a recording.
func (l *Relay) serveRecording(w http.ResponseWriter, r *http.Request, name string) error {
	s, err := l.recorded(r, name)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodDelete:
		if rec := l.find(name); rec != nil {
			rec.cancel(errors.New("the client has stopped it"))
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	case http.MethodGet:
		start := &from{last: r.Header.Get("Last-Event-ID")}
		if text := r.URL.Query().Get("offset"); text != "" {
			if start.offset, err = strconv.ParseInt(text, 10, 64); err != nil || start.offset < 0 {
				return problem.Invalid(http.StatusBadRequest, "offset", "a number of bytes is taken")
			}
		}
		return l.follow(w, r, s, start)
	}
	w.Header().Set("Allow", "GET, DELETE")
	return problem.Invalid(http.StatusMethodNotAllowed, "", "a recording is read with GET and stopped with DELETE")
}

// resume answers a client that comes back with an id of ours.
func (l *Relay) resume(w http.ResponseWriter, r *http.Request, name string, at reprise.Cursor) error {
	s, err := l.recorded(r, name)
	if err != nil {
		return err
	}
	return l.follow(w, r, s, &from{last: formatID(name, at)})
}

// latestKey returns the value in a path of LatestPath.
func (l *Relay) latestKey(path string) (key string, ok bool) {
	before, after, ok := strings.Cut(l.opts.LatestPath, "{key}")
	if !ok || len(path) <= len(before)+len(after) {
		return "", false
	}
	path, begins := strings.CutPrefix(path, before)
	key, ends := strings.CutSuffix(path, after)
	return key, begins && ends && !strings.Contains(key, "/")
}

// serveLatest answers with the newest recording of a group, if it is still written.
func (l *Relay) serveLatest(w http.ResponseWriter, r *http.Request, key string) error {
	group := latest + l.name("latest", l.principal(r), key)
	s, err := l.log.Stream(r.Context(), l.stream(r, group))
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err != nil {
		return err
	}
	reader, err := s.Reader(r.Context(), reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	name := ""
	for {
		events, err := reader.Poll(r.Context())
		if err != nil && !errors.Is(err, reprise.ErrEnded) {
			return err
		}
		for e := range events.All() {
			if e.Type == "newest" {
				name = string(e.Data)
			}
		}
		if events.Len() == 0 {
			break
		}
	}
	if name == "" || l.find(name) == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	of, err := l.recorded(r, name)
	if err != nil {
		return err
	}
	return l.follow(w, r, of, &from{})
}

// from is where an answer begins.
type from struct {
	last   string      // the id of the last event that the client has, ours or one of the backend; "" for none
	offset int64       // the bytes that it has of NDJSON
	live   http.Header // for the client of the request alone
	rec    *recording  // that the client has begun; nil for others
}

// follower sends a recording to one client.
type follower struct {
	relay  *Relay
	w      http.ResponseWriter
	r      *http.Request
	rc     *http.ResponseController
	name   string
	start  *from
	head   *head
	begun  bool // the answer has
	until  bool // events are passed over until start.last
	inside bool // the last that was sent is the beginning of an event
	sent   int64
	buffer []byte
}

// writeTimeout is how long a client may accept no bytes.
const writeTimeout = 30 * time.Second

// follow answers with a recording. The error is reprise.ErrNotFound if it was removed before its answer had begun.
func (l *Relay) follow(w http.ResponseWriter, r *http.Request, s *reprise.Stream, start *from) error {
	f := &follower{
		relay: l, w: w, r: r, rc: http.NewResponseController(w), start: start,
		name: strings.TrimPrefix(s.Key().Name, namespace),
	}
	if start.rec != nil {
		defer start.rec.took(-1)
		defer start.rec.leave()
	} else if rec := l.find(f.name); rec != nil {
		rec.enter()
		defer rec.leave()
	}
	at := reprise.Earliest()
	name, cursor, ours := parseID(start.last)
	switch {
	case ours && name != f.name:
		return notFound()
	case ours:
		at = reprise.After(cursor)
	case start.last != "":
		f.until = true
	}
	if err := f.findHead(s, at); err != nil {
		return err
	}
	reader, err := s.Reader(r.Context(), at)
	if err != nil {
		return err
	}
	defer reader.Close()
	if !ours && reader.Cursor().Seq > 0 {
		return fmt.Errorf("%w: the beginning of the answer is no longer kept", reprise.ErrExpired)
	}
	err = f.run(reader)
	if f.begun && err != nil {
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return err
}

// findHead waits for the head. Where it is no longer kept, the answer begins as for Server-Sent Events.
func (f *follower) findHead(s *reprise.Stream, at reprise.Position) error {
	f.head = &head{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}}
	reader, err := s.Reader(f.r.Context(), reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	if reader.Cursor().Seq > 0 {
		return nil
	}
	events, err := reader.Next(f.r.Context())
	if err != nil {
		return err
	}
	for e := range events.All() {
		if e.Type == typeHead {
			return json.Unmarshal(e.Data, f.head)
		}
		break
	}
	return fmt.Errorf("%w: the answer had not begun when the relay ended", errIncomplete)
}

// errIncomplete is the error for the end of a recording that is not complete.
var errIncomplete = errors.New("the answer is not complete")

// begin sends the head of the answer.
func (f *follower) begin() {
	if f.begun {
		return
	}
	f.begun = true
	h := f.w.Header()
	maps.Copy(h, f.head.Header)
	maps.Copy(h, f.start.live)
	location := f.relay.opts.Mount + Prefix + url.PathEscape(f.name)
	if h.Get("Location") == "" {
		h.Set("Location", location)
	}
	h.Set("Stream-Location", location)
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Add("Access-Control-Expose-Headers", "Location, Stream-Location")
	}
	h.Set("X-Accel-Buffering", "no")
	f.w.WriteHeader(f.head.Status)
}

func (f *follower) run(reader *reprise.Reader) error {
	ctx := f.r.Context()
	beat := time.NewTicker(f.relay.opts.Heartbeat)
	defer beat.Stop()
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if errors.Is(err, reprise.ErrEnded) {
			return f.atEnd(reader.Info().End)
		}
		if err != nil {
			return err
		}
		for e := range events.All() {
			f.add(&e, events.CursorSuffix())
		}
		if events.Len() > 0 {
			if err := f.send(); err != nil {
				return err
			}
			continue
		}
		f.begin()
		if err := f.rc.Flush(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-beat.C:
			if !f.head.Lines && !f.inside {
				f.buffer = append(f.buffer, ":\n\n"...)
			}
			if err := f.send(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.relay.life.Done():
			return errStopped
		}
	}
}

// add makes the bytes of an event.
func (f *follower) add(e *reprise.Event, suffix string) {
	f.sent += int64(len(e.Data))
	if f.until {
		id, ok := "", false
		if e.Type == typeOwn {
			id, ok = ownID(e.Data)
		}
		f.until = !ok || id != f.start.last
		return
	}
	f.inside = e.Type == typePart
	id := f.name + ":" + strconv.FormatUint(e.Seq, 10) + suffix
	switch e.Type {
	case typeBlock:
		f.buffer = withLine(f.buffer, e.Data, "id: ", id)
	case typeOwn:
		f.buffer = withLine(f.buffer, e.Data, ": relay ", id)
	case typePart:
		skip := min(f.start.offset, int64(len(e.Data)))
		f.start.offset -= skip
		f.buffer = append(f.buffer, e.Data[skip:]...)
	}
}

// send sends what add has made.
func (f *follower) send() error {
	if len(f.buffer) > 0 {
		f.begin()
		_ = f.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // a ResponseWriter without deadlines has no connection
		if _, err := f.w.Write(f.buffer); err != nil {
			return err
		}
		f.buffer = f.buffer[:0]
		if err := f.rc.Flush(); err != nil {
			return err
		}
	}
	if f.start.rec != nil {
		f.start.rec.took(f.sent)
	}
	return nil
}

// atEnd ends the answer.
func (f *follower) atEnd(how *reprise.End) error {
	var last end
	_ = json.Unmarshal(how.Data, &last) // we wrote it
	if f.until {
		return fmt.Errorf("%w: no event of the answer has this id", reprise.ErrExpired)
	}
	if how.Outcome != outcomeCompleted {
		return fmt.Errorf("%w: %s: %s", errIncomplete, how.Outcome, last.Error)
	}
	if !f.begun && f.start.last != "" { // the client has all
		f.begun = true
		f.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	f.begin()
	for name, values := range last.Trailer {
		f.w.Header()[http.TrailerPrefix+name] = values
	}
	return nil
}
