//go:build linux

package main

import (
	"bufio"
	"context"
	"net/http"
	"sync"
	"time"
)

// idleStream never has an event.
var idleStream = &stream{name: "idle"}

// visitEvery makes 200 visitors a minute.
const visitEvery = 300 * time.Millisecond

// startIdle starts a waiting reader at each server, and visitors that come and go.
func (s *stage) startIdle(ctx context.Context, wg *sync.WaitGroup) {
	for i := range s.replicas {
		wg.Go(func() {
			for ctx.Err() == nil {
				s.idle(ctx, i)
				pause(ctx, 50*time.Millisecond)
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				s.visit(ctx, i)
				pause(ctx, visitEvery)
			}
		})
	}
}

func (s *stage) openIdle(ctx context.Context, i int) *http.Response {
	resp, err := s.direct.open(ctx, i, &request{
		method: http.MethodGet,
		path:   idleStream.path() + "/events",
		header: map[string]string{"Accept": "text/event-stream"},
	})
	if err != nil {
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		if a, err := readAnswer(resp); err == nil && !a.passing() {
			s.ledger.violation("idle reader at server %d: status %d %s", i, a.status, a.Code)
		}
		return nil
	}
	return resp
}

func (s *stage) visit(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if resp := s.openIdle(ctx, i); resp != nil {
		_ = resp.Body.Close()
		s.ledger.count("visitors", 1)
	}
}

// idle holds one connection for as long as it lives. Heartbeats must arrive regardless of other readers. Three missing
// ones are too many, after allowing for the longest pause of a server and for a busy machine.
func (s *stage) idle(ctx context.Context, i int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := 3*s.opts.heartbeat + 2*time.Second
	fired := time.AfterFunc(limit, func() {
		s.ledger.violation("idle reader at server %d: nothing for %v, the heartbeat is %v", i, limit, s.opts.heartbeat)
		cancel()
	})
	fired.Stop()
	resp := s.openIdle(ctx, i)
	if resp == nil {
		return
	}
	defer resp.Body.Close()
	fired.Reset(limit)
	defer fired.Stop()
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		fired.Reset(limit)
		if line[0] == ':' {
			s.ledger.count("heartbeats", 1)
		}
	}
}
