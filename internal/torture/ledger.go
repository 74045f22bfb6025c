//go:build linux

package main

import (
	"fmt"
	"slices"
	"sync"
)

// ack is an acknowledged append.
type ack struct {
	stream      string
	ids         []string // what was sent, in order
	first, last uint64   // 0 for a duplicate whose seqs the server has forgotten
	cursor      string
}

// ledger records the observations of a stage.
type ledger struct {
	mu       sync.Mutex
	acks     []ack
	broken   []string
	kinds    map[string]int // violations by kind
	counters map[string]int // work done, for the report
	endAsked map[string]bool
}

func newLedger() *ledger {
	return &ledger{kinds: map[string]int{}, counters: map[string]int{}, endAsked: map[string]bool{}}
}

// maxTold bounds the violations of a kind that are printed individually.
const maxTold = 3

// violation records a broken rule. Violations with the same format are of one kind.
func (l *ledger) violation(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds[format]++
	if l.kinds[format] <= maxTold {
		l.broken = append(l.broken, fmt.Sprintf(format, args...))
	}
}

func (l *ledger) violations() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.kinds {
		n += times
	}
	return n
}

func (l *ledger) acknowledge(a *ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, *a)
	l.counters["acknowledged"] += len(a.ids)
}

func (l *ledger) count(what string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counters[what] += n
}

// askEnd records that a stream may end from now on.
func (l *ledger) askEnd(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endAsked[stream] = true
}

func (l *ledger) mayHaveEnded(stream string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endAsked[stream]
}

// most notes the largest of the numbers that it was called with.
func (l *ledger) most(what string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counters[what] = max(l.counters[what], n)
}

// newestCursor returns the newest append whose cursor is known, nil if there is none.
func (l *ledger) newestCursor() *ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range slices.Backward(l.acks) {
		if l.acks[i].cursor != "" {
			a := l.acks[i]
			return &a
		}
	}
	return nil
}
