package memstore_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// TestAppendsWhileStreamsComeAndGo: the tenant keeps what its streams keep, although streams are removed, trimmed and
// swept while others append to them.
func TestAppendsWhileStreamsComeAndGo(t *testing.T) {
	const rounds = 3000
	ctx := t.Context()
	s := memstore.New(nil)
	names := []string{"a", "b"}
	appends := func(name string) {
		for n := range rounds {
			info, err := s.Create(ctx, reprise.StreamInfo{Key: key(name), Epoch: epoch})
			if err != nil {
				t.Error(err)
				return
			}
			req := reprise.AppendRequest{
				Key: key(name), Epoch: epoch, First: info.Tail + 1, Count: 1, Bytes: []byte("e"), Earliest: 1,
				Kept: int64(info.Tail) + 1,
			}
			for range 4 {
				if s.Append(ctx, []reprise.AppendRequest{req}) != nil {
					break // another one was first, or the stream has gone
				}
				req.First, req.Kept = req.First+1, req.Kept+1
			}
			if n%100 == 99 {
				req.End = &reprise.End{Outcome: "completed", Time: time.Unix(1, 0), Expires: time.Unix(1, 0)}
				_ = s.Append(ctx, []reprise.AppendRequest{req})
			}
		}
	}
	var writing, changing sync.WaitGroup
	for range 2 {
		for _, name := range names {
			writing.Go(func() { appends(name) })
		}
	}
	over := make(chan struct{})
	for range 2 {
		changing.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				var err error
				switch name := names[rand.N(2)]; rand.N(6) {
				case 0:
					err = s.Remove(ctx, key(name), reprise.RemoveSpec{})
				case 1:
					_, err = s.Sweep(ctx, time.Now(), time.Now().Add(time.Minute), 1)
				case 2:
					_, err = s.Sizes(ctx)
				case 3:
					_, err = s.List(ctx, reprise.ListQuery{Tenant: reprise.DefaultTenant, Limit: 10})
				default:
					_, err = s.Read(ctx, key(name), 0, 1000)
				}
				if err != nil && !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, reprise.ErrExpired) {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	close(over)
	changing.Wait()
	var want reprise.Size
	for _, name := range names {
		if page, err := s.Read(ctx, key(name), 0, 0); err == nil {
			want.Streams++
			want.Events += int64(page.Info.Kept())
			want.Bytes += page.Info.Bytes
			want.Overhead += page.Info.Overhead()
		}
	}
	sizes, err := s.Sizes(ctx)
	if got := sizes[reprise.DefaultTenant]; err != nil || got != want {
		t.Errorf("the tenant keeps %+v, its streams %+v; %v", got, want, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
