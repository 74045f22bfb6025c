package memstore_test

import (
	"context"
	"fmt"
	"log"

	"reprise"
	"reprise/store/memstore"
)

// A Log on a Store in memory, for tests and for streams that need not outlive the process.
func Example() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()

	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/42"}
	stream, created, err := events.Create(ctx, key, reprise.StreamConfig{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte("ok\n")}); err != nil {
		log.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(created, info.Earliest, info.Tail)
	// Output: true 1 1
}
