package storewrap_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"reprise"
	"reprise/store/memstore"
	"reprise/x/storewrap"
)

// Two wrappers of the same kind around one Store: what is stored holds no password, and who reads through the outer one
// sees no events of the type "debug". A Log serves the newest events from memory, so this one reads the Store itself.
func ExampleTransform() {
	ctx := context.Background()
	inner := memstore.New(nil)
	redacted, err := storewrap.Transform(inner, storewrap.TransformOptions{Append: hidePassword})
	if err != nil {
		log.Fatal(err)
	}
	if err := writeThree(ctx, redacted); err != nil {
		log.Fatal(err)
	}
	filtered, err := storewrap.Transform(inner, storewrap.TransformOptions{Read: withoutDebug})
	if err != nil {
		log.Fatal(err)
	}
	defer filtered.Close() // and inner

	events, err := reprise.Open(ctx, filtered, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	stream, err := events.Stream(ctx, reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/42"})
	if err != nil {
		log.Fatal(err)
	}
	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	for event, err := range reader.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s %q\n", event.Seq, event.Type, event.Data)
	}
	// Output:
	// 1 stdout "password is ******\n"
	// 2 removed ""
	// 3 end ""
}

// hidePassword takes a secret out of an event.
func hidePassword(_ reprise.StreamKey, e *reprise.Event) bool {
	e.Data = bytes.ReplaceAll(e.Data, []byte("hunter2"), []byte("******"))
	return true
}

// withoutDebug drops events of one type.
func withoutDebug(_ reprise.StreamKey, e *reprise.Event) bool { return e.Type != "debug" }

func writeThree(ctx context.Context, store reprise.Store) error {
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
	if _, err := stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte("password is hunter2\n")}); err != nil {
		return err
	}
	if _, err := stream.Append(ctx, reprise.Event{Type: "debug", Data: []byte("x")}); err != nil {
		return err
	}
	_, err = stream.End(ctx, "completed", reprise.Event{})
	return err
}
