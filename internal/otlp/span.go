package otlp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math"
	"net/http"
	"time"

	"reprise/internal/tracecontext"
)

// Kind is the kind of a span.
type Kind int

// The kinds, with their numbers in the protocol.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Attribute is a name and a value, which is a string, an int64 or a bool. An empty string is left out.
type Attribute struct {
	Name  string
	Value any
}

// Parent identifies the parent of a span, as in a traceparent header. The zero Parent means none.
type Parent struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
}

// ParentOf returns the Parent in the traceparent header of a request, or the zero Parent.
func ParentOf(h http.Header) Parent { return parse(tracecontext.Of(h).Parent) }

// parse parses a valid traceparent or "".
func parse(text string) (p Parent) {
	if text == "" {
		return p
	}
	var flags [1]byte
	_, _ = hex.Decode(p.trace[:], []byte(text[3:35])) // tracecontext has checked them
	_, _ = hex.Decode(p.span[:], []byte(text[36:52]))
	_, _ = hex.Decode(flags[:], []byte(text[53:55]))
	p.sampled = flags[0]&1 != 0
	return p
}

// Span is a timed operation. A nil Span is not sampled. A Span must not be used by several goroutines at once.
type Span struct {
	tracer *Tracer
	name   string
	kind   Kind
	trace  [16]byte
	id     [8]byte
	parent [8]byte // zero for none
	began  time.Time
	ended  time.Time
	failed string // why it has failed, "" if it has not
	attrs  []Attribute
}

// Begin starts a span at began. It returns nil if the span is not sampled, or if t is nil.
func (t *Tracer) Begin(name string, kind Kind, parent Parent, began time.Time) *Span {
	if t == nil {
		return nil
	}
	s := &Span{tracer: t, name: name, kind: kind, trace: parent.trace, parent: parent.span, began: began}
	if parent.trace == [16]byte{} {
		_, _ = rand.Read(s.trace[:])
		// Like the sampler TraceIDRatioBased: the low 63 bits of the trace id decide, so that all services agree.
		if float64(binary.BigEndian.Uint64(s.trace[8:])>>1) >= t.opts.Ratio*math.MaxInt64 {
			return nil
		}
	} else if !parent.sampled {
		return nil
	}
	_, _ = rand.Read(s.id[:])
	return s
}

// Child starts a child span of s at began. It returns nil if s is nil.
func (s *Span) Child(name string, kind Kind, began time.Time) *Span {
	if s == nil {
		return nil
	}
	return s.tracer.Begin(name, kind, Parent{s.trace, s.id, true}, began)
}

// TraceParent returns the traceparent header for requests made on behalf of s, "" if s is nil.
func (s *Span) TraceParent() string {
	if s == nil {
		return ""
	}
	return "00-" + hex.EncodeToString(s.trace[:]) + "-" + hex.EncodeToString(s.id[:]) + "-01"
}

// Rename replaces the name of s.
func (s *Span) Rename(name string) {
	if s != nil {
		s.name = name
	}
}

// Fail marks s as failed, with a reason.
func (s *Span) Fail(why string) {
	if s != nil {
		s.failed = why
	}
}

// End ends s at a time and queues it. s must not be used afterwards.
func (s *Span) End(at time.Time, attrs ...Attribute) {
	if s != nil {
		s.ended, s.attrs = at, attrs
		s.tracer.queueSpan(s)
	}
}

type contextKey struct{}

// WithSpan returns a context that carries s, or ctx itself if s is nil.
func WithSpan(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, s)
}

// SpanOf returns the span that ctx carries, or nil.
func SpanOf(ctx context.Context) *Span {
	s, _ := ctx.Value(contextKey{}).(*Span)
	return s
}
