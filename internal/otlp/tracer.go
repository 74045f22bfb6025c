package otlp

import (
	"sync"
	"time"
)

// TracerOptions are the settings of a Tracer. Target is required; the zero value of every other field means its
// default.
type TracerOptions struct {
	Target
	// Ratio is the fraction of traces without a parent to sample, from 0 to 1. The zero value samples none.
	Ratio float64
	// Every bounds the time that an ended span waits to be sent. Default: 5 s.
	Every time.Duration
	// Sent and Dropped are called with the number of spans that were sent or dropped. Either may be nil.
	Sent, Dropped func(spans int)
}

const (
	maxQueue = 4096
	maxBatch = 512
)

// Tracer sends spans. It is safe for concurrent use. A nil Tracer does nothing.
type Tracer struct {
	opts     TracerOptions
	exporter *exporter
	head     []byte // of a batch

	queue   chan *Span
	closing chan struct{}
	done    chan struct{}
	once    sync.Once
}

// NewTracer returns a running Tracer, which must be closed. The error wraps reprise.ErrInvalid if the URL is invalid.
func NewTracer(opts *TracerOptions) (*Tracer, error) {
	t := &Tracer{
		opts: *opts, queue: make(chan *Span, maxQueue), closing: make(chan struct{}), done: make(chan struct{}),
		head: resourceHead(opts.Resource),
	}
	if t.opts.Every == 0 {
		t.opts.Every = 5 * time.Second
	}
	if t.opts.Sent == nil {
		t.opts.Sent = func(int) {}
	}
	if t.opts.Dropped == nil {
		t.opts.Dropped = func(int) {}
	}
	var err error
	if t.exporter, err = newExporter("traces", t.opts.Target); err != nil {
		return nil, err
	}
	go t.run()
	return t, nil
}

// queueSpan queues an ended span.
func (t *Tracer) queueSpan(s *Span) {
	select {
	case t.queue <- s:
	default:
		t.opts.Dropped(1)
	}
}

// Close sends the queued spans, for a few seconds at most. Spans that end later are dropped. Closing again does
// nothing.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.once.Do(func() {
		close(t.closing)
		t.exporter.close(t.done)
	})
}

// run sends batches until the Tracer is closed and nothing is queued.
func (t *Tracer) run() {
	defer close(t.done)
	tick := time.NewTicker(t.opts.Every)
	defer tick.Stop()
	var batch []*Span
	for {
		full, closing := false, false
		select {
		case s := <-t.queue:
			batch = append(batch, s)
			full = len(batch) == maxBatch
		case <-tick.C:
			full = true
		case <-t.closing:
			closing = true
		}
		for closing && len(t.queue) > 0 {
			batch = append(batch, <-t.queue)
		}
		for len(batch) > 0 && (full || closing) {
			n := min(len(batch), maxBatch)
			t.send(batch[:n])
			batch = batch[n:]
		}
		if closing {
			return
		}
	}
}

// send sends a batch and drops it if that fails finally.
func (t *Tracer) send(batch []*Span) {
	if t.exporter.send(encode(t.head, batch)) {
		t.opts.Sent(len(batch))
	} else {
		t.opts.Dropped(len(batch))
	}
}
