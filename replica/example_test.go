package replica_test

import (
	"context"
	"fmt"
	"log"

	"reprise"
	"reprise/replica"
)

// Join makes this process known to the others that have opened the same store, and answers their calls.
func ExampleJoin() {
	ctx := context.Background()
	var events *reprise.Log // on a store that replicas share
	member, err := replica.Join(ctx, events, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer member.Leave(ctx)
	member.Serve("echo", func(_ context.Context, _ string, body []byte) ([]byte, error) { return body, nil })
	for _, other := range member.Members() {
		answer, err := member.Call(ctx, other.Name, "echo", []byte("hello"))
		fmt.Println(other.Name, string(answer), err)
	}
}
