package pgstore_test

import (
	"context"
	"log"

	"reprise"
	"reprise/store/pgstore"
)

// Any number of programs open Logs on the same server and serve the same streams. They share the keys too, so that
// each of them takes the cursors of the others.
func Example() {
	ctx := context.Background()
	store, err := pgstore.Open(ctx, "postgres://user:password@127.0.0.1/reprise", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	events, err := reprise.Open(ctx, store, &reprise.Options{Keys: sharedKeys()})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
}

// sharedKeys are the keys that all replicas have.
func sharedKeys() *reprise.Keyset { panic("read from a file") }
