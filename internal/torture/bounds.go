//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// windowEvents is how many events the stream with a small window may keep.
	windowEvents = 300
	// stalledReaders is how many readers of each server take nothing from their connections.
	stalledReaders = 10
	// mostMemory bounds the resident memory of a server. The memory store is not bounded by it.
	mostMemory = 512 << 20
)

// startBounds lets readers stall at each server, and watches what each one keeps, in memory and of a stream. (G7)
func (s *stage) startBounds(ctx context.Context, wg *sync.WaitGroup) {
	for i := range s.replicas {
		for range stalledReaders {
			wg.Go(func() {
				for ctx.Err() == nil {
					s.stall(ctx, i)
					pause(ctx, 100*time.Millisecond)
				}
			})
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				s.checkWindow(ctx, i)
				s.checkMemory(i)
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
}

// stall opens a stream from its start and does not read, until the server gives the connection up or time is over.
func (s *stage) stall(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	resp, err := s.direct.open(ctx, i, &request{
		method: http.MethodGet, path: "/v1/streams/busy/events?after=earliest",
		header: map[string]string{"Accept": "text/event-stream"},
	})
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		s.ledger.count("readers that stall", 1)
		<-ctx.Done()
	}
}

// checkWindow checks that the stream with a small window keeps no more than it may.
func (s *stage) checkWindow(ctx context.Context, i int) {
	a, err := s.direct.call(ctx, i, &request{method: http.MethodGet, path: "/v1/streams/window"})
	if err != nil || a.status != http.StatusOK {
		return
	}
	var info struct{ Events int }
	if err := json.Unmarshal(a.body, &info); err != nil || info.Events > windowEvents {
		s.ledger.violation("server %d keeps %d events, and %d is the bound: %v", i, info.Events, windowEvents, err)
	}
}

// checkMemory checks that a server stays small.
func (s *stage) checkMemory(i int) {
	size, err := s.replicas[i].memory()
	if err != nil { // it was killed just now
		return
	}
	s.ledger.most("MiB of memory", int(size>>20))
	if size > mostMemory && s.name != "memory" {
		s.ledger.violation("server %d uses %d MiB of memory, and %d is the bound", i, size>>20, mostMemory>>20)
	}
}

// memory returns the resident memory of the process, in bytes.
func (r *replica) memory() (int64, error) {
	r.mu.Lock()
	pid := r.cmd.Process.Pid
	r.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, os.ErrProcessDone
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}
