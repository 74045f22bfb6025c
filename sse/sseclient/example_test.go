package sseclient_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"reprise/sse/sseclient"
)

// The answer of the source ends after its first event, and the client comes back for the rest.
func Example() {
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch r.Header.Get("Last-Event-ID") {
		case "":
			_, _ = io.WriteString(w, "retry: 10\nid: 1\ndata: hello\n\n")
		case "1":
			_, _ = io.WriteString(w, "id: 2\nevent: note\ndata: again\n\n")
		default:
			w.WriteHeader(http.StatusNoContent) // the end of the stream
		}
	}))
	defer source.Close()

	client, err := sseclient.New(source.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range client.Events(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type, string(event.Data))
	}
	fmt.Println("after", client.LastEventID())
	// Output:
	// message hello
	// note again
	// after 2
}
