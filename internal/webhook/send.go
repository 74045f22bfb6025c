package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/backoff"
)

const (
	// maxAnswer bounds how much of a response is read, so that its connection can be reused.
	maxAnswer = 4 << 10
	// maxRetryAfter bounds the pause that a receiver can ask for.
	maxRetryAfter = time.Hour
	userAgent     = "Reprise-Webhook/1"
	// noteTimeout bounds the recording of an acknowledgement while the sender is being stopped.
	noteTimeout = 5 * time.Second
)

// sender sends the messages of a queue in order.
type sender struct {
	hooks *Hooks
	hook  *Hook
	queue *queue
}

// run sends until ctx is done or something fails.
func (s *sender) run(ctx context.Context) error {
	reader, err := s.queue.stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if window, ok := errors.AsType[*reprise.WindowError](err); ok { // the next message says what is missing
			if err = reader.Seek(reprise.After(window.Resume())); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		for e := range events.All() {
			if err := s.event(ctx, &e); err != nil {
				return err
			}
		}
		if events.Len() > 0 {
			continue
		}
		if dropped, last := s.queue.dropped(reader.Cursor().Seq); dropped > 0 { // no later message tells of them
			if err := s.tellDropped(ctx, last+1, dropped); err != nil {
				return err
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tellDropped tells the receiver how many messages before number n are missing. A sender that was replaced does not,
// since its successor may have sent them.
func (s *sender) tellDropped(ctx context.Context, n, dropped uint64) error {
	if err := s.queue.confirm(ctx); err != nil {
		return err
	}
	sent := n - 1 - dropped
	gap := &message{ID: messageID(s.hook.ID, "dropped", itoa(sent), itoa(n)), Body: gapBody("", dropped, "")}
	s.hooks.opts.Events.dropped(s.hook, dropped)
	if err := s.deliver(ctx, gap); err != nil {
		return err
	}
	return s.queue.noteDropped(ctx, n, dropped)
}

// event sends the message in an event of the queue, unless it was sent before.
func (s *sender) event(ctx context.Context, e *reprise.Event) error {
	if e.Type != typeMessage {
		return nil
	}
	var r record
	if err := json.Unmarshal(e.Data, &r); err != nil || r.Message == nil {
		return fmt.Errorf("event %d of the queue is not a message: %w", e.Seq, err)
	}
	m, sent := r.Message, s.queue.sent()
	if m.N <= sent {
		return nil
	}
	if dropped := m.N - sent - 1; dropped > 0 {
		if err := s.tellDropped(ctx, m.N, dropped); err != nil {
			return err
		}
	}
	if err := s.deliver(ctx, m); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout) // record it even when stopped
	defer cancel()
	return s.queue.noteSent(ctx, m.N, e.Seq, time.Now())
}

// deliver sends a message until the receiver acknowledges it.
func (s *sender) deliver(ctx context.Context, m *message) error {
	wait := backoff.Backoff{First: s.hooks.opts.FirstPause, Most: s.hooks.opts.MostPause}
	for {
		if err := s.hooks.check(ctx, s.hook); err != nil {
			return err
		}
		answer := s.hooks.post(ctx, s.hook, m)
		if answer.ok() {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if answer.Status == http.StatusGone {
			return &disableError{"the receiver answered with 410 Gone"}
		}
		since, err := s.queue.noteFailure(ctx, time.Now(), answer.Status, answer.Error)
		if err != nil {
			return err
		}
		if time.Since(since) >= s.hooks.opts.GiveUp {
			return &disableError{fmt.Sprintf("every try since %s has failed", since.UTC().Format(time.RFC3339))}
		}
		if err := backoff.Sleep(ctx, answer.retryAfter+wait.Next()); err != nil {
			return err
		}
	}
}

// Answer is the result of a try.
type Answer struct {
	// Status is the status of the response, 0 if there was none.
	Status int
	// Error describes a failure. It is empty for a success.
	Error string

	retryAfter time.Duration
}

func (a *Answer) ok() bool { return a.Error == "" }

// post sends a message once.
func (h *Hooks) post(ctx context.Context, hook *Hook, m *message) Answer {
	began := time.Now()
	answer := h.try(ctx, hook, m)
	if ctx.Err() == nil {
		h.opts.Events.tried(hook, &answer, time.Since(began))
	}
	return answer
}

func (h *Hooks) try(ctx context.Context, hook *Hook, m *message) Answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Answer{Error: "the URL cannot be used"}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", userAgent)
	secrets := hook.Secrets
	if now, err := h.known.Find(hook.ID); err == nil { // use rotated secrets from now on
		secrets = now.Value.Secrets
	}
	sign(request.Header, secrets, m.ID, time.Now(), m.Body)
	res, err := h.client.Do(request)
	if err != nil {
		return Answer{Error: reasonOf(err)}
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	answer := Answer{Status: res.StatusCode}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		answer.Error = "the receiver answered with " + strconv.Itoa(res.StatusCode)
		answer.retryAfter = retryAfter(res.Header.Get("Retry-After"))
	}
	return answer
}

// reasonOf describes why there was no response to whoever has made the webhook: without the URL, and without the
// addresses of this server and its resolver, which errors of package net contain.
func reasonOf(err error) string {
	for _, ours := range []error{ErrAddress, errPlain} {
		if errors.Is(err, ours) {
			return ours.Error()
		}
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		if outer.Timeout() {
			return "the receiver did not answer in time"
		}
		err = outer.Err
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return "the name of the receiver has no address"
		}
		return "the name of the receiver cannot be looked up"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	text := err.Error()
	return text[:min(len(text), 256)]
}

// retryAfter returns the pause that a receiver asks for.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 1<<20))*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}
