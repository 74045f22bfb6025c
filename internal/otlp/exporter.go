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
	"time"

	"reprise"
	"reprise/internal/backoff"
)

// Target is the destination of a signal and the process that sends it.
type Target struct {
	// URL is the whole URL of the collector for the signal, for example http://127.0.0.1:4318/v1/traces.
	URL string
	// Headers are sent with each request, for example for authentication.
	Headers map[string]string
	// Resource describes this process: "service.name" and more.
	Resource []Attribute
	// Logger receives a record when the collector stops answering and when it answers again. Default: silent.
	Logger *slog.Logger
}

const (
	sendTimeout = 10 * time.Second
	maxTries    = 5
	// closePatience bounds the time to send the last data when a signal is closed.
	closePatience = 3 * time.Second
)

// exporter sends the bodies of one signal in order.
type exporter struct {
	target  Target
	signal  string
	client  *http.Client
	ctx     context.Context // until close gives up
	giveUp  context.CancelFunc
	failing bool
}

func newExporter(signal string, target Target) (*exporter, error) {
	if u, err := url.Parse(target.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: the OTLP endpoint is no http:// or https:// URL", reprise.ErrInvalid)
	}
	if target.Logger == nil {
		target.Logger = slog.New(slog.DiscardHandler)
	}
	e := &exporter{target: target, signal: signal, client: &http.Client{
		Timeout:       sendTimeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	e.ctx, e.giveUp = context.WithCancel(context.Background())
	return e, nil
}

// close waits until done is closed, for closePatience at most.
func (e *exporter) close(done <-chan struct{}) {
	timer := time.AfterFunc(closePatience, e.giveUp)
	<-done
	timer.Stop()
	e.giveUp()
	e.client.CloseIdleConnections()
}

// send sends a body, retries failures that may pass, and reports whether the collector accepted it.
func (e *exporter) send(body []byte) (taken bool) {
	wait := backoff.Backoff{First: 500 * time.Millisecond, Most: 5 * time.Second}
	for try := 1; ; try++ {
		pause, err := e.post(body)
		if err == nil {
			if e.failing {
				e.target.Logger.Info("the collector answers again", "signal", e.signal)
			}
			e.failing = false
			return true
		}
		if _, again := errors.AsType[*passing](err); !again || try == maxTries ||
			backoff.Sleep(e.ctx, min(pause, sendTimeout)+wait.Next()) != nil {
			if !e.failing {
				e.target.Logger.Warn("the collector does not take what is sent", "signal", e.signal, "error", err)
			}
			e.failing = true
			return false
		}
	}
}

// passing is a failure after which a body is sent again (OTLP, "Failures").
type passing struct{ err error }

func (p *passing) Error() string { return p.err.Error() }

// post sends a body once. pause is the delay that the collector asks for.
func (e *exporter) post(body []byte) (pause time.Duration, err error) {
	request, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.target.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range e.target.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/json")
	res, err := e.client.Do(request)
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

// signalURL returns the URL of a signal at an endpoint (OTLP exporter configuration, "Endpoint URLs for OTLP/HTTP").
func signalURL(endpoint, signal string) string {
	return strings.TrimSuffix(endpoint, "/") + "/v1/" + signal
}
