package storetest

import (
	"testing"

	"reprise"
	"reprise/store/memstore"
)

func openMemory(testing.TB) Harness {
	return Harness{Open: func() (reprise.Store, error) { return memstore.New(nil), nil }}
}

func TestMemory(t *testing.T) { Run(t, openMemory, nil) }

// TestPersistent runs the checks that need a Store which can be opened again.
func TestPersistent(t *testing.T) { Run(t, openPlace, &Options{Events: 10_000, Streams: 1000}) }
