package shared_test

import (
	"context"
	"errors"
	"testing"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
	"reprise/store/storetest"
)

func open(testing.TB) storetest.Harness {
	hub := shared.New(memstore.New(nil))
	another := func() (reprise.Store, error) { return hub.Store(), nil }
	lose := func(reprise.Store) (func() error, error) { return hub.PrepareLoss(context.Background()) }
	return storetest.Harness{Open: another, Share: another, Lose: lose}
}

func TestStoreKeepsContract(t *testing.T) {
	storetest.Run(t, open, &storetest.Options{Events: 10_000, Streams: 1000})
}

// The Store inside is closed with the last replica, not before.
func TestLastReplicaCloses(t *testing.T) {
	inner := memstore.New(nil)
	hub := shared.New(inner)
	a, b := hub.Store(), hub.Store()
	info := reprise.StreamInfo{
		Key:   reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"},
		Epoch: reprise.NewEpoch(),
	}
	if _, err := a.Create(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time does nothing
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Read(t.Context(), info.Key, 0, 0); err != nil {
		t.Errorf("the other replica: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := inner.Read(t.Context(), info.Key, 0, 0); !errors.Is(err, reprise.ErrClosed) {
		t.Errorf("the Store inside: %v, want ErrClosed", err)
	}
}
