package sseclient

import (
	"cmp"
	"net/http"
	"time"
)

// Options are the settings of a Client. The zero value of each field means its default.
type Options struct {
	// HTTPClient sends the requests. Its Timeout is ignored, because it would cut off long answers. Its
	// CheckRedirect is called before each redirect is followed. Default: a client with http.DefaultTransport.
	HTTPClient *http.Client
	// Method is the HTTP method, for example "POST" or "REPORT". Default: "GET".
	Method string
	// Repeat says that the request may be sent again after a connection is lost or ends, whatever the method. Without
	// it a method that is not idempotent, such as "POST", is sent again only if it has not arrived: each request may
	// do something. A header "Idempotency-Key" has the same effect.
	Repeat bool
	// Header is sent with each request, only to the origin of the URL. The client sets "Accept", "Cache-Control" and
	// "Last-Event-ID" itself.
	Header http.Header
	// Body is sent with each request. Set its content type in Header.
	Body []byte
	// LastEventID is the start: the id of the last event of an earlier loop.
	LastEventID string
	// MinWait and MaxWait limit the time before the client reconnects: a random part of MinWait, doubled with each
	// consecutive failure up to MaxWait, plus the time that the source asks for. Defaults: 500 ms, 30 s.
	MinWait, MaxWait time.Duration
	// IdleTimeout is the silence after which the client gives up a connection; any byte ends the silence. Default:
	// no limit, because the format has no mandatory heartbeat.
	IdleTimeout time.Duration
	// GiveUp is how long a lost connection is retried before the loop ends with the error. Default: no
	// limit; negative: no retry.
	GiveUp time.Duration
	// MaxBytes is the maximum size of a line, and of the data of an event. Default: 16 MiB.
	MaxBytes int
	// OnOpen, if not nil, is called with each answer that is an event stream, before its first event. It must
	// not use the body.
	OnOpen func(*http.Response)
	// OnComment, if not nil, is called with the text of each comment as its line arrives, without the colon
	// and one space. The text is valid during the call.
	OnComment func(text []byte)
	// OnDrop, if not nil, is called with each failure before the wait that follows.
	//
	// OnOpen, OnComment and OnDrop are called by the goroutine of the loop.
	OnDrop func(Drop)
}

// Drop describes a connection that was lost or could not be made.
type Drop struct {
	Err error
	// Since is the time of the first consecutive failure, Tries the number of consecutive failures.
	Since time.Time
	Tries int
	// Wait is the time until the next attempt.
	Wait time.Duration
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Method = cmp.Or(d.Method, http.MethodGet)
	d.Header = d.Header.Clone()
	d.MinWait = cmp.Or(d.MinWait, 500*time.Millisecond)
	d.MaxWait = cmp.Or(d.MaxWait, 30*time.Second)
	return d
}
