package mcpstore_test

import (
	"context"
	"fmt"
	"log"

	"reprise"
	"reprise/mcp/mcpstore"
	"reprise/store/memstore"
)

// An event store for the Streamable HTTP transport of the Go SDK, which takes it as
// mcp.StreamableHTTPOptions.EventStore.
func ExampleNew() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	eventStore := mcpstore.New(events, nil)
	defer eventStore.Close()

	if err := eventStore.Open(ctx, "session", "stream"); err != nil {
		log.Fatal(err)
	}
	for _, message := range []string{`{"progress":1}`, `{"progress":2}`} {
		if err := eventStore.Append(ctx, "session", "stream", []byte(message)); err != nil {
			log.Fatal(err)
		}
	}
	for message, err := range eventStore.After(ctx, "session", "stream", 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(message))
	}
	// Output: {"progress":2}
}
