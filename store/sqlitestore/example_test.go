package sqlitestore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"reprise"
	"reprise/store/sqlitestore"
)

// What was acknowledged is there when the file is opened again.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "events.db")
	for range 2 {
		if err := appendToFile(context.Background(), path); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// appended event 1
	// appended event 2
}

// appendToFile opens the file, appends one event and closes the file.
func appendToFile(ctx context.Context, path string) error {
	store, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	defer events.Close()
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/42"}
	stream, _, err := events.Create(ctx, key, reprise.StreamConfig{})
	if err != nil {
		return err
	}
	if _, err := stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte("ok\n")}); err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	fmt.Println("appended event", info.Tail)
	return err
}
