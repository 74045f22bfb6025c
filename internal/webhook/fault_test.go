package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"reprise"
	"reprise/internal/webhook"
	"reprise/store/memstore"
)

var errDisk = errors.New("the disk is full")

// faulty is a store that fails the first append of a message with the number 2 to a queue.
type faulty struct {
	reprise.Store
	kept    bool // although it fails
	reached chan struct{}
	held    chan struct{} // closed to let it fail
}

func (s *faulty) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	second := slices.ContainsFunc(reqs, func(q reprise.AppendRequest) bool {
		return bytes.Contains(q.Bytes, []byte(`"message":{"n":2,`))
	})
	if second {
		select {
		case s.reached <- struct{}{}:
			<-s.held
			if s.kept {
				s.Store.Append(ctx, reqs)
			}
			return slices.Repeat([]error{errDisk}, len(reqs))
		default:
		}
	}
	return s.Store.Append(ctx, reqs)
}

// What is noted beside an append that fails does not count its messages: none is told as dropped, and none is left out,
// whether they were kept or not.
func TestFailedAppendIsNotCounted(t *testing.T) {
	for name, kept := range map[string]bool{"lost": false, "kept": true} {
		t.Run(name, func(t *testing.T) {
			store := &faulty{memstore.New(nil), kept, make(chan struct{}, 1), make(chan struct{})}
			f := newFixtureOn(t, store, webhook.Options{})
			asked, first := make(chan struct{}), make(chan struct{})
			r := newReceiver(t, func(n int, _ *delivery) int {
				if n == 1 {
					close(asked)
					<-first
				}
				return 200
			})
			st := f.stream("a")
			hook := f.add(webhook.Request{URL: r.URL, Source: webhook.Streams, Stream: "a"})
			f.send(1)
			f.publish(st, 1, 1, "note")
			<-asked
			f.publish(st, 2, 2, "note")
			<-store.reached
			close(first)
			r.await(t, 1)
			time.Sleep(20 * time.Millisecond) // the sender wants to note that the first was taken
			close(store.held)
			f.publish(st, 3, 3, "note")
			f.awaitHook(hook.ID, "idle", func(_ *webhook.Hook, p webhook.Progress) bool {
				return p.Sent >= 3 && p.Queued == p.Sent
			})
			got := texts(r.await(t, r.count()))
			want := []string{"stream.event a note 1", "stream.event a note 2", "stream.event a note 3"}
			if !slices.Equal(slices.Compact(got), want) {
				t.Errorf("got %q", got)
			}
		})
	}
}
