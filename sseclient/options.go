package sseclient

import (
	"cmp"
	"net/http"
	"time"
)

// Options are the settings of a Client. The zero value of each field means its default.
type Options struct {
	// HTTPClient sends the requests. Its Timeout does not count, for it would cut off answers that go on. Its
	// CheckRedirect is asked before each redirect is followed. Default: one with http.DefaultTransport.
	HTTPClient *http.Client
	// Method is that of the requests, for example "POST" or "REPORT". Default: "GET".
	Method string
	// Header is sent with each request, to the origin of the URL alone. "Accept", "Cache-Control" and "Last-Event-ID"
	// are the client's own and win.
	Header http.Header
	// Body is sent with each request. Its content type belongs into Header.
	Body []byte
	// LastEventID is where to begin: the id of the last event of an earlier loop.
	LastEventID string
	// MinWait and MaxWait bound the time before a further connection: a random part of MinWait, doubled with each
	// failure in a row up to MaxWait, on top of what the source asks for. Defaults: 500 ms, 30 s.
	MinWait, MaxWait time.Duration
	// IdleTimeout is the silence after which a connection is given up; any byte ends a silence. Default: without
	// end, since the format has no heartbeat that a source must send.
	IdleTimeout time.Duration
	// GiveUp is for how long a lost connection is tried again before the loop ends with the error. Default: without
	// end; negative: no second try.
	GiveUp time.Duration
	// MaxBytes bounds a line, and the data of an event, both inclusive. Default: 16 MiB.
	MaxBytes int
	// OnOpen, where it is not nil, is told of each answer that is an event stream, before its first event. It must
	// leave the body alone.
	OnOpen func(*http.Response)
	// OnComment, where it is not nil, is called with the text of each comment as its line comes, without the colon
	// and one space. The text is valid during the call.
	OnComment func(text []byte)
	// OnDrop, where it is not nil, is told of each failure before the wait that follows.
	//
	// OnOpen, OnComment and OnDrop are called by the goroutine of the loop.
	OnDrop func(Drop)
}

// Drop tells of a connection that was lost or did not come about.
type Drop struct {
	Err error
	// Since is when the first failure in a row was, Tries how many there have been.
	Since time.Time
	Tries int
	// Wait is the time until the next try.
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
