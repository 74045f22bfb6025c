package storewrap_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"reprise"
	"reprise/store/sqlitestore"
	"reprise/store/storewrap"
)

// A Store in a file, in which everything is compressed and encrypted.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "reprise.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	keys, err := reprise.LoadKeyset(filepath.Join(dir, "store.keys")) // makes the file: keep a copy
	if err != nil {
		log.Fatal(err)
	}
	encrypted, err := storewrap.Encrypt(store, keys)
	if err != nil {
		log.Fatal(err)
	}
	compressed, err := storewrap.Compress(encrypted, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer compressed.Close()

	// The other way round would gain nothing, and is refused.
	_, err = storewrap.Encrypt(compressed, keys)
	fmt.Println(err)

	events, err := reprise.Open(ctx, compressed, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	stream, _, err := events.Create(ctx, reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/42"},
		reprise.StreamConfig{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := stream.End(ctx, "completed", reprise.Event{Data: []byte("done")}); err != nil {
		log.Fatal(err)
	}
	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	for event, err := range reader.Events(ctx) {
		fmt.Printf("%d %s %s %v\n", event.Seq, event.Type, event.Data, err)
	}
	// Output:
	// invalid: Encrypt around Compress: encrypted bytes do not get smaller; put Compress around Encrypt
	// 1 end done <nil>
}
