package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/store/memstore"
)

func Example() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		panic(err)
	}
	defer log.Close()

	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/42"}
	stream, _, err := log.Create(ctx, key, reprise.StreamConfig{})
	if err != nil {
		panic(err)
	}
	stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte("compiling\n")})
	stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte("linking\n")})
	stream.End(ctx, "completed", reprise.Event{})

	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		panic(err)
	}
	defer reader.Close()
	for event, err := range reader.Events(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d %s %q\n", event.Seq, event.Type, event.Data)
	}
	// Output:
	// 1 stdout "compiling\n"
	// 2 stdout "linking\n"
	// 3 end ""
}

// exampleStream is a new stream, and what closes it.
func exampleStream(config reprise.StreamConfig) (*reprise.Stream, func()) {
	ctx := context.Background()
	store := memstore.New(nil)
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		panic(err)
	}
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "example"}
	stream, _, err := log.Create(ctx, key, config)
	if err != nil {
		panic(err)
	}
	return stream, func() {
		log.Close()
		store.Close()
	}
}

// A reader that was cut off goes on where it was, with the cursor of the last event that it got.
func ExampleStream_Reader() {
	ctx := context.Background()
	stream, done := exampleStream(reprise.StreamConfig{})
	defer done()
	stream.Append(ctx, reprise.Event{Data: []byte("one")}, reprise.Event{Data: []byte("two")},
		reprise.Event{Data: []byte("three")})
	stream.End(ctx, "completed", reprise.Event{})

	first, _ := stream.Reader(ctx, reprise.Earliest())
	var kept string // as a client keeps it
	for event := range first.Events(ctx) {
		fmt.Printf("%d %s\n", event.Seq, event.Data)
		kept = first.Cursor().String()
		break // the connection breaks
	}
	first.Close()

	cursor, err := reprise.ParseCursor(kept)
	if err != nil {
		panic(err)
	}
	second, _ := stream.Reader(ctx, reprise.After(cursor))
	defer second.Close()
	for event := range second.Events(ctx) {
		fmt.Printf("%d %s\n", event.Seq, event.Data)
	}
	// Output:
	// 1 one
	// 2 two
	// 3 three
	// 4
}

// A reader that is behind the window is told what it has missed, and where it can go on.
func ExampleWindowError() {
	ctx := context.Background()
	stream, done := exampleStream(reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 2}})
	defer done()
	for range 10 {
		stream.Append(ctx, reprise.Event{})
	}

	_, err := stream.Reader(ctx, reprise.After(stream.Cursor(3)))
	if window, ok := errors.AsType[*reprise.WindowError](err); ok {
		fmt.Printf("%s: %d events are gone, kept are %d to %d\n",
			window.Reason, window.Missed(), window.Earliest.Seq+1, window.Tail.Seq)
	}
	// Output:
	// cursor_expired: 5 events are gone, kept are 9 to 10
}

// A producer that cannot know whether its append has come through makes it again.
func ExampleStream_AppendWith() {
	ctx := context.Background()
	stream, done := exampleStream(reprise.StreamConfig{})
	defer done()
	once := reprise.AppendOptions{Producer: &reprise.ProducerID{ID: "sensor-7", Epoch: 1, Seq: 0}}
	for range 2 {
		appended, err := stream.AppendWith(ctx, once, reprise.Event{Data: []byte("21.5")})
		fmt.Println(appended.First, appended.Duplicate, err)
	}
	// Output:
	// 1 false <nil>
	// 1 true <nil>
}

// The run of a reader is in the form of the wire: made once, whoever reads it.
func ExampleEvents_Encoded() {
	ctx := context.Background()
	stream, done := exampleStream(reprise.StreamConfig{})
	defer done()
	at := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	stream.Append(ctx, reprise.Event{Time: at, Data: []byte("a")}, reprise.Event{Time: at, Data: []byte{0xff}})

	reader, _ := stream.Reader(ctx, reprise.Earliest())
	defer reader.Close()
	run, _ := reader.Next(ctx)
	fmt.Print(string(run.Encoded(jsonLines{})))
	// Output:
	// {"seq":1,"time":"2026-11-20T09:30:00.000Z","text":"a"}
	// {"seq":2,"time":"2026-11-20T09:30:00.000Z","base64":"/w=="}
}

// jsonLines is an Encoder that has no use for cursors.
type jsonLines struct{}

func (jsonLines) AppendEvent(dst []byte, e *reprise.Event, _ string) []byte {
	return append(e.AppendJSON(dst), '\n')
}
