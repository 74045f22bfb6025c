package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
)

// Options are the settings of a Tracer. The zero value of each field means its default, but for Endpoint.
type Options struct {
	// Endpoint is the URL of the collector, to which "/v1/traces" is added. Traces, if set, is the whole URL in its
	// place.
	Endpoint, Traces string
	// Headers are sent with each request, for example for authentication.
	Headers map[string]string
	// Resource describes this process: "service.name" and more.
	Resource []Attribute
	// Ratio is the part of the traces that begin here which is sampled, from 0 to 1. The zero value samples none.
	Ratio float64
	// Every is the longest time that a span waits to be sent. Default: 5 s.
	Every time.Duration
	// Sent and Dropped are told how many spans were sent or dropped. Default: nobody is.
	Sent, Dropped func(spans int)
	// Logger is told when the collector stops and begins to answer. Default: silent.
	Logger *slog.Logger
}

const (
	maxQueue    = 4096
	maxBatch    = 512
	sendTimeout = 10 * time.Second
	maxTries    = 5
	// closePatience is how long Close waits for the last spans to be sent.
	closePatience = 3 * time.Second
)

// Tracer sends spans. It is safe for concurrent use. A nil Tracer does nothing.
type Tracer struct {
	opts   Options
	url    string
	client *http.Client
	head   []byte // of a batch

	queue   chan *Span
	ctx     context.Context //nolint:containedctx // until Close gives up
	giveUp  context.CancelFunc
	closing chan struct{}
	done    chan struct{}
	once    sync.Once
	failing bool
}

// New returns a Tracer that sends. It must be closed. The error wraps reprise.ErrInvalid for an endpoint that is none.
func New(opts *Options) (*Tracer, error) {
	t := &Tracer{
		opts: *opts, queue: make(chan *Span, maxQueue), closing: make(chan struct{}), done: make(chan struct{}),
		client: &http.Client{
			Timeout:       sendTimeout,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if t.url = t.opts.Traces; t.url == "" {
		t.url = strings.TrimSuffix(t.opts.Endpoint, "/") + "/v1/traces"
	}
	if u, err := url.Parse(t.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: the OTLP endpoint is no http:// or https:// URL", reprise.ErrInvalid)
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
	if t.opts.Logger == nil {
		t.opts.Logger = slog.New(slog.DiscardHandler)
	}
	t.head = resourceHead(t.opts.Resource)
	t.ctx, t.giveUp = context.WithCancel(context.Background())
	go t.run()
	return t, nil
}

// queueSpan queues a span that has ended.
func (t *Tracer) queueSpan(s *Span) {
	select {
	case t.queue <- s:
	default:
		t.opts.Dropped(1)
	}
}

// Close sends what is queued, for a few seconds at most. Spans that end later are dropped. Closing again does nothing.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.once.Do(func() {
		close(t.closing)
		timer := time.AfterFunc(closePatience, t.giveUp)
		<-t.done
		timer.Stop()
		t.giveUp()
		t.client.CloseIdleConnections()
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

// send sends a batch, and drops it when that fails for good.
func (t *Tracer) send(batch []*Span) {
	text := encode(t.head, batch)
	wait := backoff.Backoff{First: 500 * time.Millisecond, Most: 5 * time.Second}
	for try := 1; ; try++ {
		pause, err := t.post(text)
		if err == nil {
			if t.failing {
				t.opts.Logger.Info("the collector of traces answers again")
			}
			t.failing = false
			t.opts.Sent(len(batch))
			return
		}
		if _, again := errors.AsType[*passing](err); !again || try == maxTries ||
			backoff.Sleep(t.ctx, min(pause, sendTimeout)+wait.Next()) != nil {
			if !t.failing {
				t.opts.Logger.Warn("the collector of traces does not take spans", "error", err)
			}
			t.failing = true
			t.opts.Dropped(len(batch))
			return
		}
	}
}

// passing is a failure after which a batch is sent again (OTLP, "Failures").
type passing struct{ err error }

func (p *passing) Error() string { return p.err.Error() }

// post sends a body once. pause is what the collector asks for.
func (t *Tracer) post(body []byte) (pause time.Duration, err error) {
	request, err := http.NewRequestWithContext(t.ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range t.opts.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/json")
	res, err := t.client.Do(request)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // without the URL, which may hold a secret
		}
		return 0, &passing{err}
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	switch res.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return time.Duration(max(seconds, 0)) * time.Second, &passing{fmt.Errorf("status %d", res.StatusCode)}
	}
	return 0, fmt.Errorf("status %d", res.StatusCode)
}
