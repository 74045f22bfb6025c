package ssehttp_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/sse/ssehttp"
)

// TestFilteredReaderOfBusyStreamSeesDisconnect: a reader that filters out every event of a busy stream still notices
// that its client has gone.
func TestFilteredReaderOfBusyStreamSeesDisconnect(t *testing.T) {
	log := newLog(t, nil)
	s := create(t, log, "s", reprise.Retention{MaxEvents: 100})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	noise := make(chan struct{})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-noise:
					return
				default:
				}
				if _, err := s.Append(t.Context(), text("noise")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		request := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
		ssehttp.Serve(httptest.NewRecorder(), request, s, ssehttp.Request{After: "tail", Types: []string{"end"}}, nil)
	}()
	cancel()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Error("the reader of a client that has gone is still there")
	}
	close(noise)
	writers.Wait()
	<-done
}
