package storewrap_test

import (
	"errors"
	"testing"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// TestRetryKnowsItsBatchAfterALoss: an append whose answer was lost is refused in the epoch after a failover. It has
// succeeded if its batch is part of what is left.
func TestRetryKnowsItsBatchAfterALoss(t *testing.T) {
	for _, c := range []struct {
		name string
		keep uint64
		want error
	}{
		{"kept", 3, nil},
		{"lost", 2, reprise.ErrNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			hub := shared.New(memstore.New(nil))
			inner := hub.Store()
			mustCreate(t, inner, key("s"))
			for first := uint64(1); first <= 2; first++ {
				mustAppend(t, inner, request(key("s"), first, "before"))
			}
			tries := 0
			f := &flaky{Store: inner, lose: func() int { return 0 }}
			f.append = func([]reprise.AppendRequest) int {
				if tries++; tries == 1 {
					return 2
				}
				check(t, hub.Lose(t.Context(), key("s"), c.keep))
				return 0
			}
			s := retry(t, f, eager)
			errs := s.Append(t.Context(), []reprise.AppendRequest{request(key("s"), 3, "in doubt")})
			if err := errors.Join(errs...); !errors.Is(err, c.want) {
				t.Errorf("the append: %v, want %v", err, c.want)
			}
			if tries != 2 {
				t.Errorf("%d tries, want 2", tries)
			}
			check(t, s.Close())
		})
	}
}

// TestEncryptedStreamIsReadAfterALoss: what was encrypted in the epoch before is read in the one after, and what a
// failover has taken back is not taken for an event of that.
func TestEncryptedStreamIsReadAfterALoss(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	inner := hub.Store()
	s := encrypt(t, inner)
	mustCreate(t, s, key("s"))
	for first := uint64(1); first <= 3; first++ {
		mustAppend(t, s, request(key("s"), first, "event"))
	}
	page, err := inner.Read(t.Context(), key("s"), 2, 1<<20)
	check(t, err)
	lost := page.Batches[0]
	check(t, hub.Lose(t.Context(), key("s"), 2))
	page, err = s.Read(t.Context(), key("s"), 0, 1<<20)
	if err != nil || len(page.Batches) != 2 || string(page.Batches[0].Bytes) != "event" {
		t.Fatalf("%+v, %v", page, err)
	}
	list, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	if err != nil || len(list.Streams) != 1 || list.Streams[0].Epoch != page.Info.Epoch {
		t.Errorf("%+v, %v", list, err)
	}
	forged := request(key("s"), 3, string(lost.Bytes))
	forged.Epoch = page.Info.Epoch
	mustAppend(t, inner, forged)
	if page, err = s.Read(t.Context(), key("s"), 2, 1<<20); err == nil {
		t.Errorf("an event that was taken back is read: %+v", page)
	}
	check(t, s.Close())
}
