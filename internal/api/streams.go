package api

import (
	"maps"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
)

// streamBody is how a stream is shown.
type streamBody struct {
	Name string `json:"name"`
	// Status is "open" or "ended".
	Status  string            `json:"status"`
	Outcome *string           `json:"outcome"`
	Labels  map[string]string `json:"labels"`
	// Retention is the requested one, without the defaults of the server.
	Retention execution.Retention `json:"retention"`
	Created   execution.Time      `json:"created"`
	Ended     *execution.Time     `json:"ended"`
	// Expires is when the stream may be swept.
	Expires *execution.Time  `json:"expires"`
	Window  execution.Window `json:"window"`
	// Events and Bytes count the kept events.
	Events uint64      `json:"events"`
	Bytes  int64       `json:"bytes"`
	Links  streamLinks `json:"links"`
}

type streamLinks struct {
	Self   string `json:"self"`
	Events string `json:"events"`
}

func (s *Server) streamBody(info *reprise.StreamInfo) streamBody {
	self := "/v1/streams/" + url.PathEscape(info.Key.Name)
	body := streamBody{
		Name: info.Key.Name, Status: "open", Labels: maps.Clone(info.Config.Labels),
		Retention: execution.Retention{
			MaxEvents: info.Config.Retention.MaxEvents,
			MaxBytes:  info.Config.Retention.MaxBytes,
			MaxAge:    execution.Duration(info.Config.Retention.MaxAge),
			MaxIdle:   execution.Duration(info.Config.MaxIdle()),
		},
		Created: execution.Time{Time: info.Created},
		Window:  s.window(info),
		Events:  info.Kept(), Bytes: info.Bytes,
		Links: streamLinks{self, self + "/events"},
	}
	for _, own := range ownLabels {
		delete(body.Labels, own)
	}
	if body.Labels == nil {
		body.Labels = map[string]string{}
	}
	if end := info.End; end != nil {
		body.Status, body.Outcome = "ended", &end.Outcome
		body.Ended = &execution.Time{Time: end.Time}
		body.Expires = &execution.Time{Time: end.Expires}
	}
	return body
}

// ownLabels are the labels of a stream that are not shown as such and that nobody else sets.
var ownLabels = []string{reprise.AccountLabel, reprise.MaxIdleLabel}

// withOwn returns the labels of a stream that is charged to a principal, and that may be idle for maxIdle, or for ever
// if that is 0.
func withOwn(labels map[string]string, principal string, maxIdle time.Duration) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all[reprise.AccountLabel] = principal
	if maxIdle > 0 {
		all[reprise.MaxIdleLabel] = maxIdle.String()
	}
	return all
}

func (s *Server) window(info *reprise.StreamInfo) execution.Window {
	earliest, tail := s.log.Window(info)
	return execution.Window{Earliest: earliest.String(), Tail: tail.String()}
}

func (s *Server) createStream(x *exchange) error {
	key, err := userStream(x)
	if err != nil {
		return err
	}
	if err := x.mayMake(identity.ScopePublish, key.Name, "stream"); err != nil {
		return err
	}
	var body struct {
		Retention execution.Retention `json:"retention"`
		Labels    map[string]string   `json:"labels"`
	}
	text, err := s.readBody(x, s.opts.MaxBody)
	if err == nil && len(text) > 0 {
		err = decodeAs(mediaType(x.r), text, &body)
	}
	if err != nil {
		return err
	}
	for _, own := range ownLabels {
		if _, given := body.Labels[own]; given {
			return unprocessable("labels", "the label "+own+" is the server's own")
		}
	}
	if r := body.Retention; r.MaxEvents < 0 || r.MaxBytes < 0 || r.MaxAge < 0 || r.MaxIdle < 0 {
		return unprocessable("retention", "a bound is negative")
	}
	stream, created, err := s.log.Create(x.r.Context(), key, reprise.StreamConfig{
		Retention: reprise.Retention{
			MaxEvents: body.Retention.MaxEvents,
			MaxBytes:  body.Retention.MaxBytes,
			MaxAge:    time.Duration(body.Retention.MaxAge),
		},
		Labels: withOwn(body.Labels, x.who.Name, time.Duration(body.Retention.MaxIdle)),
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		x.w.Header().Set("Location", "/v1/streams/"+url.PathEscape(key.Name))
	}
	return s.answerStream(x, status, stream)
}

// configureStream changes the retention and the labels of a stream. It can remove events, so it takes the scope that
// removing the stream takes.
func (s *Server) configureStream(x *exchange) error {
	stream, err := s.stream(x, identity.ScopeControl)
	if err != nil {
		return err
	}
	var body execution.Change
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	if err := body.Validate(); err != nil {
		return err
	}
	for _, own := range ownLabels {
		if _, given := body.Labels[own]; given {
			return unprocessable("labels", "the label "+own+" is the server's own")
		}
	}
	info, err := stream.Configure(x.r.Context(), func(config *reprise.StreamConfig) { body.Apply(config, "") })
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, s.streamBody(&info))
}

func (s *Server) answerStream(x *exchange, status int, stream *reprise.Stream) error {
	info, err := stream.Info(x.r.Context())
	if err != nil {
		return err
	}
	return s.answer(x, status, s.streamBody(&info))
}

// stream finds the stream in the path, for a sender with a scope for it.
func (s *Server) stream(x *exchange, scope identity.Scope) (*reprise.Stream, error) {
	key, err := userStream(x)
	if err != nil {
		return nil, err
	}
	if !x.who.MayOn(scope, key.Name) {
		return nil, notYours(key)
	}
	return s.log.Stream(x.r.Context(), key)
}

func (s *Server) showStream(x *exchange) error {
	stream, err := s.stream(x, identity.ScopeRead)
	if err != nil {
		return err
	}
	return s.answerStream(x, http.StatusOK, stream)
}

func (s *Server) removeStream(x *exchange) error {
	key, err := userStream(x)
	if err != nil {
		return err
	}
	if !x.who.MayOn(identity.ScopeControl, key.Name) {
		return x.done() // as for one that does not exist
	}
	if err := s.log.Remove(x.r.Context(), key); err != nil {
		return err
	}
	return x.done()
}

func (s *Server) listStreams(x *exchange) error {
	limit, cursor, err := x.query.page()
	if err != nil {
		return err
	}
	page, err := s.readableStreams(x, limit, cursor)
	if err != nil {
		return x.query.listError(err)
	}
	shown := make([]streamBody, 0, len(page.Streams))
	for i := range page.Streams {
		shown = append(shown, s.streamBody(&page.Streams[i]))
	}
	return s.answer(x, http.StatusOK, struct {
		Streams    []streamBody `json:"streams"`
		NextCursor string       `json:"next_cursor"`
	}{shown, page.Next})
}

// listedBytes ends a page that is put together from several pages of the Log, each of which is bounded in bytes too.
const listedBytes = 4 << 20

// readableStreams is a page of the streams that the principal may read. That there are others shows in no cursor and in
// no number. Looking for few among many reads the whole list.
func (s *Server) readableStreams(x *exchange, limit int, cursor string) (reprise.ListPage, error) {
	q := reprise.ListQuery{Tenant: x.who.Tenant, Limit: limit, After: cursor}
	if x.who.MayAll(identity.ScopeRead) {
		return s.log.List(x.r.Context(), q)
	}
	var found reprise.ListPage
	var size int64
	for q.Limit = maxLimit; ; {
		page, err := s.log.List(x.r.Context(), q)
		if err != nil {
			return reprise.ListPage{}, err
		}
		before := len(found.Streams)
		whole := true
		for i := range page.Streams {
			if !x.who.MayRead(page.Streams[i].Key) {
				continue
			}
			if len(found.Streams) == limit { // read again up to here, for the cursor before it
				q.Limit, whole = i, false
				found.Streams = found.Streams[:before]
				break
			}
			found.Streams = append(found.Streams, page.Streams[i])
		}
		if !whole {
			continue
		}
		for i := range found.Streams[before:] {
			size += found.Streams[before+i].Overhead()
		}
		full := len(found.Streams) == limit || size >= listedBytes
		if q.After, found.Next = page.Next, page.Next; found.Next == "" || full {
			return s.withoutEmptyPage(x, found)
		}
		q.Limit = maxLimit
	}
}

// withoutEmptyPage takes back the cursor of a page after which there is nothing for the principal.
func (s *Server) withoutEmptyPage(x *exchange, found reprise.ListPage) (reprise.ListPage, error) {
	q := reprise.ListQuery{Tenant: x.who.Tenant, Limit: maxLimit, After: found.Next}
	for q.After != "" {
		page, err := s.log.List(x.r.Context(), q)
		if err != nil {
			return reprise.ListPage{}, err
		}
		for i := range page.Streams {
			if x.who.MayRead(page.Streams[i].Key) {
				return found, nil
			}
		}
		q.After = page.Next
	}
	found.Next = ""
	return found, nil
}
