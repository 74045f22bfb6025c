package reprise_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
)

// slowDisk takes a while for each commit, and longer for a large one.
type slowDisk struct{ reprise.Store }

func (s slowDisk) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	size := 0
	for i := range reqs {
		size += len(reqs[i].Bytes)
	}
	time.Sleep(2*time.Millisecond + time.Duration(size)*time.Second/(200<<20))
	return s.Store.Append(ctx, reqs)
}

// jain is the fairness index of what parties have got: 1 where all have got the same, 1/n where one has got everything.
func jain(got []int64) float64 {
	var sum, squares float64
	for _, n := range got {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	return sum * sum / (float64(len(got)) * squares)
}

// appendsOfTenants lets 50 tenants append with 20 writers each for a while, and returns how often each could. The first
// has more writers, or appends more at a time.
func appendsOfTenants(t *testing.T, floodWriters, floodBytes int) []int64 {
	const tenants, writers, enough = 50, 20, 100 * time.Millisecond
	log := openLog(t, slowDisk{memory(t)}, &reprise.Options{SweepEvery: -1})
	ctx, stop := context.WithTimeout(t.Context(), enough)
	defer stop()
	counts := make([]atomic.Int64, tenants)
	var all sync.WaitGroup
	for i := range tenants {
		n, size := writers, 200
		if i == 0 {
			n, size = floodWriters, floodBytes
		}
		event := reprise.Event{Type: "note", Data: bytes.Repeat([]byte("x"), size)}
		for w := range n {
			key := reprise.StreamKey{Tenant: reprise.Tenant(fmt.Sprint("tenant-", i)), Name: fmt.Sprint("s", w%4)}
			config := reprise.StreamConfig{Retention: reprise.Retention{MaxBytes: 4 << 20}}
			s, _, err := log.Create(t.Context(), key, config)
			check(t, err)
			all.Go(func() {
				for ctx.Err() == nil {
					if _, err := s.Append(ctx, event); err == nil {
						counts[i].Add(1)
					} else if ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	got := make([]int64, tenants)
	for i := range counts {
		got[i] = counts[i].Load()
	}
	return got
}

// TestAppendsAreFairWhileOneTenantFloods: with as many writers as each of the others, one that appends a thousand
// times as much at a time gets no more turns than they. With twenty times as many writers it has more turns, in the
// commits that the others' appends are in too: each of those has as many as every other, and nearly as many as without.
func TestAppendsAreFairWhileOneTenantFloods(t *testing.T) {
	var calm int64
	for _, tt := range []struct {
		name           string
		writers, bytes int
		compared       int // the first tenant of those who are
	}{
		{"calm", 20, 200, 0},
		{"large appends", 20, 200 << 10, 0},
		{"many writers", 400, 200, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := appendsOfTenants(t, tt.writers, tt.bytes)
			if index := jain(got[tt.compared:]); index < 0.95 {
				t.Errorf("%s: the fairness index is %.3f: %v", tt.name, index, got)
			}
			switch {
			case calm == 0:
				calm = got[1]
			case tt.compared == 1 && got[1] < calm*3/4:
				t.Errorf("%s: another tenant has %d turns, %d without the flood", tt.name, got[1], calm)
			}
		})
	}
}
