package api

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// streamBody is how a stream is shown.
type streamBody struct {
	client.Stream
	Links streamLinks `json:"links"`
}

type streamLinks struct {
	Self   string `json:"self"`
	Events string `json:"events"`
}

func (s *Server) streamBody(info *reprise.StreamInfo) streamBody {
	self := streamsPath + url.PathEscape(info.Key.Name)
	body := streamBody{client.Stream{
		Name: info.Key.Name, Status: "open", Labels: maps.Clone(info.Config.Labels),
		Retention: execution.Retention{
			MaxEvents:  info.Config.Retention.MaxEvents,
			MaxBytes:   info.Config.Retention.MaxBytes,
			MaxAge:     execution.Duration(info.Config.Retention.MaxAge),
			MaxIdle:    execution.Duration(info.Config.MaxIdle()),
			MaxAgeEach: execution.Duration(info.Config.MaxAgeEach()),
		},
		Created: execution.Time{Time: info.Created},
		Window:  s.opts.Reads.Window(info),
		Events:  info.Kept(), Bytes: info.Bytes,
	}, streamLinks{self, self + "/events"}}
	for _, own := range ownLabels {
		delete(body.Labels, own)
	}
	if body.Labels == nil {
		body.Labels = map[string]string{}
	}
	if end := info.End; end != nil {
		body.Status, body.Outcome = "ended", client.Outcome(end.Outcome)
		body.Ended, body.Expires = wire.At(end.Time), wire.At(end.Expires)
	}
	return body
}

// ownLabels are the labels of a stream that are not shown as such and that only the server sets.
var ownLabels = []string{
	reprise.AccountLabel, reprise.MaxIdleLabel, reprise.MaxAgeEachLabel, reprise.ExpiresLabel,
}

// withOwn returns the labels of a stream that is charged to a principal, with the bounds of bound that are labels.
func withOwn(labels map[string]string, principal string, bound *execution.Retention) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all[reprise.AccountLabel] = principal
	if d := time.Duration(bound.MaxIdle); d > 0 {
		all[reprise.MaxIdleLabel] = d.String()
	}
	if d := time.Duration(bound.MaxAgeEach); d > 0 {
		all[reprise.MaxAgeEachLabel] = d.String()
	}
	return all
}

func (s *Server) createStream(x *web.Exchange) error {
	key, err := userStream(x)
	if err != nil {
		return err
	}
	if err := x.MayMake(identity.ScopePublish, key.Name, "stream"); err != nil {
		return err
	}
	var body client.StreamConfig
	if err := x.DecodeOptional(&body); err != nil {
		return err
	}
	for _, own := range ownLabels {
		if _, given := body.Labels[own]; given {
			return web.Unprocessable("labels", "the label "+own+" is the server's own")
		}
	}
	if r := body.Retention; r.MaxEvents < 0 || r.MaxBytes < 0 || r.MaxAge < 0 || r.MaxIdle < 0 || r.MaxAgeEach < 0 {
		return web.Unprocessable("retention", "a bound is negative")
	}
	stream, created, err := s.log.Create(x.R.Context(), key, reprise.StreamConfig{
		Retention: reprise.Retention{
			MaxEvents: body.Retention.MaxEvents,
			MaxBytes:  body.Retention.MaxBytes,
			MaxAge:    time.Duration(body.Retention.MaxAge),
		},
		Labels: withOwn(body.Labels, x.Who.Name, &body.Retention),
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		x.W.Header().Set("Location", streamsPath+url.PathEscape(key.Name))
	}
	return s.answerStream(x, status, stream)
}

// configureStream changes the retention and the labels of a stream. It can remove events, so it takes the scope that
// removing the stream takes.
func (s *Server) configureStream(x *web.Exchange) error {
	stream, err := s.stream(x, identity.ScopeControl)
	if err != nil {
		return err
	}
	var body execution.Change
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	if err := body.Validate(); err != nil {
		return err
	}
	for _, own := range ownLabels {
		if _, given := body.Labels[own]; given {
			return web.Unprocessable("labels", "the label "+own+" is the server's own")
		}
	}
	info, err := stream.Configure(x.R.Context(), func(config *reprise.StreamConfig) { body.Apply(config, "") })
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, s.streamBody(&info))
}

// trimStream removes the events up to a position, by default all of them. It can be repeated.
func (s *Server) trimStream(x *web.Exchange) error {
	stream, err := s.stream(x, identity.ScopeControl)
	if err != nil {
		return err
	}
	var body struct {
		After string `json:"after"`
	}
	if err := x.DecodeOptional(&body); err != nil {
		return err
	}
	at, err := reprise.ParsePosition(cmp.Or(body.After, "tail"))
	if err != nil {
		return err
	}
	switch reader, err := stream.Reader(x.R.Context(), at); {
	case err == nil:
		before := reader.Cursor().Seq + 1
		reader.Close()
		if err := stream.Trim(x.R.Context(), before); err != nil {
			return err
		}
	case !isBehindWindow(err): // and if it is, the events are gone already
		return err
	}
	return s.answerStream(x, http.StatusOK, stream)
}

// isBehindWindow reports whether err refuses a position before the kept events.
func isBehindWindow(err error) bool {
	window, ok := errors.AsType[*reprise.WindowError](err)
	return ok && window.Reason == reprise.CursorExpired
}

func (s *Server) answerStream(x *web.Exchange, status int, stream *reprise.Stream) error {
	info, err := stream.Info(x.R.Context())
	if err != nil {
		return err
	}
	return x.Answer(status, s.streamBody(&info))
}

// stream finds the stream in the path, for a sender with a scope for it. A publisher learns how to create a stream that
// does not exist, and gets the same answer for one that it may not use.
func (s *Server) stream(x *web.Exchange, scope identity.Scope) (*reprise.Stream, error) {
	key, err := userStream(x)
	if err != nil {
		return nil, err
	}
	var stream *reprise.Stream
	if x.Who.MayOn(scope, key.Name) {
		stream, err = s.log.Stream(x.R.Context(), key)
	} else {
		err = grants.NotFound(key)
	}
	if scope == identity.ScopePublish && errors.Is(err, reprise.ErrNotFound) {
		return nil, fmt.Errorf("%w; PUT %s creates it", err, streamsPath+url.PathEscape(key.Name))
	}
	return stream, err
}

// streamsPath is the path below which streams have their names.
const streamsPath = "/v1/streams/"

func (s *Server) showStream(x *web.Exchange) error {
	stream, err := s.stream(x, identity.ScopeRead)
	if err != nil {
		return err
	}
	return s.answerStream(x, http.StatusOK, stream)
}

func (s *Server) removeStream(x *web.Exchange) error {
	key, err := userStream(x)
	if err != nil {
		return err
	}
	if !x.Who.MayOn(identity.ScopeControl, key.Name) {
		return x.Done() // as for one that does not exist
	}
	if err := s.log.Remove(x.R.Context(), key); err != nil {
		return err
	}
	return x.Done()
}

func (s *Server) listStreams(x *web.Exchange) error {
	limit, cursor, err := x.Query.Page()
	if err != nil {
		return err
	}
	page, err := s.readableStreams(x, limit, cursor)
	if err != nil {
		return x.Query.ListError(err)
	}
	shown := make([]streamBody, 0, len(page.Streams))
	for i := range page.Streams {
		shown = append(shown, s.streamBody(&page.Streams[i]))
	}
	return x.Answer(http.StatusOK, struct {
		Streams    []streamBody `json:"streams"`
		NextCursor string       `json:"next_cursor"`
	}{shown, page.Next})
}

// listedBytes ends a page that is put together from several pages of the Log, which are bounded in bytes too.
const listedBytes = 4 << 20

// readableStreams is a page of the streams that the principal may read. That there are others shows in no cursor and in
// no number. Looking for few among many reads the whole list.
func (s *Server) readableStreams(x *web.Exchange, limit int, cursor string) (reprise.ListPage, error) {
	q := reprise.ListQuery{Tenant: x.Who.Tenant, Limit: limit, After: cursor}
	if x.Who.MayAll(identity.ScopeRead) {
		return s.log.List(x.R.Context(), q)
	}
	var found reprise.ListPage
	var size int64
	for q.Limit = web.MaxLimit; ; {
		page, err := s.log.List(x.R.Context(), q)
		if err != nil {
			return reprise.ListPage{}, err
		}
		before := len(found.Streams)
		whole := true
		for i := range page.Streams {
			if !x.Who.MayRead(page.Streams[i].Key) {
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
		q.Limit = web.MaxLimit
	}
}

// withoutEmptyPage takes back the cursor of a page after which there is nothing for the principal.
func (s *Server) withoutEmptyPage(x *web.Exchange, found reprise.ListPage) (reprise.ListPage, error) {
	q := reprise.ListQuery{Tenant: x.Who.Tenant, Limit: web.MaxLimit, After: found.Next}
	for q.After != "" {
		page, err := s.log.List(x.R.Context(), q)
		if err != nil {
			return reprise.ListPage{}, err
		}
		for i := range page.Streams {
			if x.Who.MayRead(page.Streams[i].Key) {
				return found, nil
			}
		}
		q.After = page.Next
	}
	found.Next = ""
	return found, nil
}
