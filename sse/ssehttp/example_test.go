package ssehttp_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"reprise"
	"reprise/sse/ssehttp"
	"reprise/store/memstore"
)

// A handler that serves one stream to browsers and to curl.
func ExampleHandler() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/42"}
	stream, _, err := events.Create(ctx, key, reprise.StreamConfig{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := stream.Append(ctx, reprise.Event{Type: "stdout", Data: []byte("ok\n")}); err != nil {
		log.Fatal(err)
	}
	if _, err := stream.End(ctx, "completed", reprise.Event{}); err != nil {
		log.Fatal(err)
	}

	handler := &ssehttp.Handler{Stream: func(r *http.Request) (*reprise.Stream, error) {
		return events.Stream(r.Context(), key)
	}}
	server := httptest.NewServer(handler)
	defer server.Close()

	response, err := http.Get(server.URL + "?after=earliest")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "event:") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// event: stdout
	// event: end
}
