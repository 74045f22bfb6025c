package storetest

import (
	"testing"

	"reprise"
	"reprise/memstore"
)

func openMemory(testing.TB) Harness {
	return Harness{Open: func() (reprise.Store, error) { return memstore.New(nil), nil }}
}

func TestMemory(t *testing.T) { Run(t, openMemory, nil) }
