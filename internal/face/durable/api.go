package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/problem"
	"reprise/internal/reads"
	"reprise/internal/web"
)

// API is the face. It implements web.Part.
type API struct {
	// Prefix is where the paths of streams begin, without a slash at its end.
	Prefix string
	Log    *reprise.Log
	Reads  *reads.Service
	// Heartbeat is the silence after which a reader that follows is sent a comment.
	Heartbeat time.Duration
}

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	m.AddFace(&web.Face{
		Prefixes: []string{a.Prefix + "/"},
		Allow:    strings.Join([]string{closed, ttlName, expiresAt, seqName, forkedFrom, forkOffset, forkSub}, ", "),
		Expose: strings.Join([]string{
			nextOffset, upToDate, closed, cursorName, ttlName, expiresAt, sseEncoding, producerEpoch, producerSeq,
			producerExpected, producerReceived,
		}, ", "),
	})
	at := a.Prefix + "/{path...}"
	m.Handle("PUT", at, identity.ScopePublish, nil, a.create, web.AnyQuery)
	m.Handle("POST", at, identity.ScopePublish, nil, a.append, web.AnyQuery)
	m.Handle("GET", at, web.OneStream, nil, a.read, web.AnyQuery)
	m.Handle("DELETE", at, identity.ScopeControl, nil, a.remove, web.AnyQuery)
}

// The headers of the protocol.
const (
	nextOffset  = "Stream-Next-Offset"
	upToDate    = "Stream-Up-To-Date"
	closed      = "Stream-Closed"
	cursorName  = "Stream-Cursor"
	ttlName     = "Stream-TTL"
	expiresAt   = "Stream-Expires-At"
	seqName     = "Stream-Seq"
	forkedFrom  = "Stream-Forked-From"
	forkOffset  = "Stream-Fork-Offset"
	forkSub     = "Stream-Fork-Sub-Offset"
	sseEncoding = "Stream-Sse-Data-Encoding"
	// These are not of the protocol: how a closed stream has ended, if it is not by closing it, and the offset before
	// the first event that is kept, if that is not the first one of the stream.
	outcome  = "Stream-Outcome"
	earliest = "Stream-Earliest"

	producerID       = "Producer-Id"
	producerEpoch    = "Producer-Epoch"
	producerSeq      = "Producer-Seq"
	producerExpected = "Producer-Expected-Seq"
	producerReceived = "Producer-Received-Seq"
)

const isTrue = "true"

// meta is what is kept of a stream at its creation.
type meta struct {
	// Durable is the version of this form, which tells these streams from others.
	Durable     int    `json:"durable"`
	ContentType string `json:"content_type"`
	// TTL is in seconds, and Expires as it was given.
	TTL     int64  `json:"ttl,omitempty"`
	Expires string `json:"expires_at,omitempty"`
	// Fork is the stream that this one was forked from, nil if from none.
	Fork *fork `json:"fork,omitempty"`
}

const metaVersion = 1

func (m *meta) isJSON() bool { return mediaType(m.ContentType) == web.JSON }

// ttl returns how long the stream is kept without being used; 0 for ever.
func (m *meta) ttl() time.Duration { return time.Duration(m.TTL) * time.Second }

// base is how much higher positions are than seqs.
func (m *meta) base() uint64 {
	if m.Fork == nil {
		return 0
	}
	return m.Fork.Base
}

// mediaType returns the type without parameters, in lower case.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// stream is a stream of the protocol in one state.
type stream struct {
	*reprise.Stream
	info reprise.StreamInfo
	meta meta
}

// first returns the position before the first event that is kept.
func (s *stream) first() uint64 { return min(s.info.Earliest-1+s.meta.base(), s.tail()) }

// tail returns the position after the last event, which an end is not.
func (s *stream) tail() uint64 {
	tail := s.info.Tail
	if s.info.End != nil {
		tail--
	}
	return tail + s.meta.base()
}

// removedLabel marks a stream that was removed while it had forks.
const removedLabel = "durable.removed"

// errRemoved is the refusal of such a stream.
var errRemoved = fmt.Errorf("%w: it was removed, and its name is kept for its forks", reprise.ErrExpired)

// find returns the stream of a key. One that has expired is removed.
func (a API) find(ctx context.Context, key reprise.StreamKey) (*stream, error) {
	on, err := a.Log.Stream(ctx, key)
	if err == nil {
		s := &stream{Stream: on}
		err = s.look(ctx)
		switch expires := s.info.Config.Expires(); {
		case err != nil:
		case json.Unmarshal(s.info.Config.Meta, &s.meta) != nil, s.meta.Durable != metaVersion:
			err = reprise.ErrNotFound
		case !expires.IsZero() && !time.Now().Before(expires):
			err = a.drop(ctx, s)
		case s.info.Config.Labels[removedLabel] == "":
			return s, nil
		default:
			forks, ferr := a.hasForks(ctx, key)
			if forks {
				return nil, errRemoved
			}
			if err = ferr; err == nil {
				err = a.drop(ctx, s)
			}
		}
	}
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return nil, grants.NotFound(key)
	}
	return nil, err
}

// look reads the state of the stream again.
func (s *stream) look(ctx context.Context) (err error) {
	s.info, err = s.Info(ctx)
	return err
}

// use moves the time at which a stream with a TTL expires. It is kept with the stream, a tenth of the TTL later than it
// is, so that not every use is a write.
func (s *stream) use(ctx context.Context) error {
	ttl := s.meta.ttl()
	if now := time.Now(); ttl == 0 || !s.info.Config.Expires().Before(now.Add(ttl)) {
		return nil
	}
	_, err := s.Configure(ctx, func(config *reprise.StreamConfig) {
		config.Labels[reprise.ExpiresLabel] = s.meta.expires()
	})
	return err
}

// stay is use for a reader that has been there for a while.
func (s *stream) stay(ctx context.Context) error {
	if s.meta.TTL == 0 {
		return nil
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	return s.use(ctx)
}

// expires returns the time of the label for a stream that is used now, "" for none.
func (m *meta) expires() string {
	if ttl := m.ttl(); ttl > 0 {
		return time.Now().Add(ttl + ttl/10).UTC().Format(time.RFC3339Nano)
	}
	return m.Expires
}

// asked returns the stream in the path, for a sender who may publish to it.
func (a API) asked(x *web.Exchange, scope identity.Scope) (*stream, error) {
	key, err := keyOf(x, x.R.PathValue("path"))
	if err != nil {
		return nil, err
	}
	if !x.Who.MayOn(scope, key.Name) {
		return nil, grants.NotFound(key)
	}
	return a.find(x.R.Context(), key)
}

// tell adds where a stream ends.
func (s *stream) tell(h http.Header) {
	h.Set(nextOffset, offsetOf(s.tail()))
	s.tellClosed(h)
}

func (s *stream) tellClosed(h http.Header) {
	if s.info.End == nil {
		return
	}
	h.Set(closed, isTrue)
	if how := s.info.End.Outcome; how != outcomeClosed {
		h.Set(outcome, how)
	}
}

// outcomeClosed is the outcome of a stream that was closed.
const outcomeClosed = "completed"

// head answers a HEAD, which does not count as a use.
func (a API) head(x *web.Exchange, s *stream) error {
	h := x.W.Header()
	s.tell(h)
	h.Set("Content-Type", s.meta.ContentType)
	switch {
	case s.meta.TTL > 0:
		h.Set(ttlName, strconv.FormatInt(s.meta.TTL, 10))
	case s.meta.Expires != "":
		h.Set(expiresAt, s.meta.Expires)
	}
	x.W.WriteHeader(http.StatusOK)
	return nil
}

// conflict is the refusal of a request that does not fit the state of the stream.
func conflict(format string, args ...any) error {
	return problem.New(problem.CodeConflict, fmt.Sprintf(format, args...))
}
