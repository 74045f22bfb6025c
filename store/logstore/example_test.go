package logstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"reprise"
	"reprise/store/logstore"
)

// A log is a folder. What was acknowledged is there when it is opened again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/42"}
	for _, line := range []string{"compiling", "linking"} {
		err := withLog(ctx, filepath.Join(dir, "log"), func(events *reprise.Log) error {
			stream, _, err := events.Create(ctx, key, reprise.StreamConfig{})
			if err != nil {
				return err
			}
			if _, err := stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte(line)}); err != nil {
				return err
			}
			info, err := stream.Info(ctx)
			fmt.Println(line, "is event", info.Tail)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// compiling is event 1
	// linking is event 2
}

// withLog calls f with the log in a folder.
func withLog(ctx context.Context, folder string, f func(*reprise.Log) error) error {
	store, err := logstore.Open(ctx, folder, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	defer events.Close()
	return f(events)
}
