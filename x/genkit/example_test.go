package genkit_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/firebase/genkit/go/core/x/streaming"

	"reprise"
	"reprise/store/memstore"
	"reprise/x/genkit"
)

func Example() {
	ctx := context.Background()
	log, err := reprise.Open(ctx, memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	var manager streaming.StreamManager
	manager, err = genkit.Open(ctx, log) // for WithStreamManager of Genkit's handler
	if err != nil {
		panic(err)
	}
	in, err := manager.Open(ctx, "answer")
	if err != nil {
		panic(err)
	}
	_ = in.Write(ctx, json.RawMessage(`"Hello"`))
	_ = in.Done(ctx, json.RawMessage(`"Hello."`)) // in error, if the chunk was not written

	events, unsubscribe, err := manager.Subscribe(ctx, "answer")
	if err != nil {
		panic(err)
	}
	defer unsubscribe()
	for e := range events {
		fmt.Println(e.Type == streaming.StreamEventDone, string(e.Chunk)+string(e.Output))
	}
	// Output:
	// false "Hello"
	// true "Hello."
}
