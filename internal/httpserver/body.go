package httpserver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// linger is how long the server waits for the rest of a body after its request is answered. A client that is still
	// sending would lose the answer if the connection were closed immediately.
	linger = 500 * time.Millisecond
	// maxIgnored limits the part of a body that is read and dropped after a success that does not depend on it.
	maxIgnored = 4 << 10
)

// GuardBody bounds the pauses in the body of r: a read fails when no bytes have come for the duration pause. The
// bound ends with the body, so that it does not touch a response that lasts longer. A
// response that begins before the end of the body closes the connection, for which net/http waits no longer
// than half a second.
//
// The handler uses the returned writer and request in place of w and r, and calls done when it returns. For a
// request without a body, and for one that is guarded already, they are w and r. The writer gives
// http.ResponseController access to w.
func GuardBody(w http.ResponseWriter, r *http.Request, pause time.Duration) (
	_ http.ResponseWriter, _ *http.Request, done func(),
) {
	if hasNoBody(r) {
		return w, r, func() {}
	}
	if _, guarded := r.Body.(*body); guarded {
		return w, r, func() {}
	}
	g := &struct { // in one allocation
		body       body
		response   response
		controller http.ResponseController
	}{controller: *http.NewResponseController(w)}
	g.body.inner, g.body.rc, g.body.pause = r.Body, &g.controller, pause
	g.response = response{
		ResponseWriter: w, body: &g.body, expects: r.Header.Get("Expect") != "", stream: r.ProtoMajor > 1,
	}
	r = r.WithContext(r.Context()) // net/http looks at the Body of its own copy
	r.Body = &g.body
	return &g.response, r, g.response.done
}

// hasNoBody reports whether r has no body. Over HTTP/2 a request without one has a reader of no bytes.
func hasNoBody(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.ProtoMajor == 2 && r.ContentLength == 0
}

// BoundBody makes reads of the body of r fail once it takes longer than whole, whatever the pauses. It does nothing
// for a body that GuardBody does not guard.
func BoundBody(r *http.Request, whole time.Duration) {
	if b, ok := r.Body.(*body); ok {
		b.until = time.Now().Add(whole) // before anybody reads
	}
}

// Interleave lets a handler answer while it still reads the body of r, which GuardBody guards: the response may begin
// before the body ends, and one goroutine may read while another one writes. Over HTTP/1 the connection is closed after
// the response.
//
// finish gives the client half a second to end the body; reads fail then, also one under way. Safe for concurrent use.
func Interleave(w http.ResponseWriter, r *http.Request) (finish func(), err error) {
	b, ok := r.Body.(*body)
	if !ok { // no body
		return func() {}, nil
	}
	if err := b.rc.EnableFullDuplex(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.interleaved = true
	b.mu.Unlock()
	if b.whole != nil { // of a sender that is known: the body may have no end to wait for
		b.whole()
		b.whole = nil
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	return b.finish, nil
}

// EndBody makes reads of the body of r, which GuardBody guards, fail with the cause of ctx once ctx is done, also a
// read under way. It leaves a body of which Interleave was called to its handler, and a client that has gone to the
// connection. stop must be called when the handler has returned.
func EndBody(ctx context.Context, r *http.Request) (stop func()) {
	b, ok := r.Body.(*body)
	if !ok {
		return func() {}
	}
	unlink := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			b.cut(cause)
		}
	})
	return func() { unlink() }
}

// IsEncoded reports whether r has a body in a content coding, which the server does not support.
func IsEncoded(r *http.Request) bool {
	if hasNoBody(r) {
		return false
	}
	for _, value := range r.Header.Values("Content-Encoding") {
		for entry := range strings.SplitSeq(value, ",") {
			if entry = strings.TrimSpace(entry); entry != "" && !strings.EqualFold(entry, "identity") {
				return true
			}
		}
	}
	return false
}

// body is the body of a request. It is used by one goroutine at a time, except finish.
type body struct {
	inner io.ReadCloser
	rc    *http.ResponseController
	pause time.Duration
	whole func() // called at the end of the body, if not nil
	// interleaved is set if the response may begin before the end of the body.
	interleaved bool

	mu    sync.Mutex
	until time.Time // zero for no bound on the whole
	cause error     // why reads fail, nil if they do not; see EndBody
	ended bool
}

// Read implements io.Reader. At the end of the body net/http takes the deadline back, as it reads on to see whether
// the client is there. After a failure it stays.
func (b *body) Read(p []byte) (int, error) {
	if err := b.allow(b.pause); err != nil {
		return 0, err
	}
	n, err := b.inner.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.failure(err)
	}
	if errors.Is(err, io.EOF) && b.end() && b.whole != nil {
		b.whole()
	}
	return n, err
}

// end notes the end of the body. It returns false if that was noted before.
func (b *body) end() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.ended
	b.ended = true
	return first
}

// Close implements io.Closer.
func (b *body) Close() error { return b.inner.Close() }

// cut makes reads fail with cause. It does nothing after the end of the body: net/http then reads on to see whether the
// client is there, and a deadline would cancel the contexts of this request and of all that follow on the connection.
func (b *body) cut(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.interleaved && !b.ended {
		b.cause = cause
		_ = b.rc.SetReadDeadline(time.Unix(1, 0))
	}
}

// state reports whether the body has ended, and whether it was cut before that.
func (b *body) state() (ended, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended, b.cause != nil
}

// failure returns why a read has failed with err.
func (b *body) failure(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cmp.Or(b.cause, err)
}

// allow gives the client the time d for the next bytes, unless the body has ended. A ResponseWriter without deadlines
// has no network connection. The error is the cause of cut.
func (b *body) allow(d time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil
	}
	deadline := time.Now().Add(d)
	if !b.until.IsZero() && b.until.Before(deadline) {
		deadline = b.until
	}
	_ = b.rc.SetReadDeadline(deadline)
	return b.cause
}

// finish limits the time for the rest of the body, from a goroutine other than the reader.
func (b *body) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Now().Add(linger)
	_ = b.rc.SetReadDeadline(b.until)
}

// response is the ResponseWriter of a request with a body.
type response struct {
	http.ResponseWriter
	body    *body
	expects bool // the client waits for "100 Continue" before it sends the body
	begun   bool
	stream  bool // of HTTP/2, which ends without its connection
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if status >= 200 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// done is called when the handler has returned.
func (w *response) done() { w.begin(http.StatusOK) }

// begin handles the rest of the body before the response begins. Without begin, net/http would first read that rest,
// however long the client takes. A refusal is sent immediately and closes the connection. After a success a small rest
// is read, so that the connection can be reused.
func (w *response) begin(status int) {
	if w.begun {
		return
	}
	w.begun = true
	b := w.body
	if ended, cut := b.state(); b.interleaved || ended {
		if cut && !w.stream { // maybe in the moment in which net/http began to read on
			w.Header().Set("Connection", "close")
		}
		return
	}
	b.pause, b.until = linger, time.Time{}
	if status < http.StatusBadRequest && !w.expects {
		b.until = time.Now().Add(linger)
		_, _ = io.CopyN(io.Discard, b, maxIgnored+1)
	}
	if ended, _ := b.state(); !ended {
		if !w.stream {
			w.Header().Set("Connection", "close")
		}
		_ = b.allow(linger)
	}
}
