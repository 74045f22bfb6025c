package sse_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"reprise/sse"
)

// The end of a response is not the end of a stream: Next returns io.EOF, and the caller resumes after LastEventID.
func ExampleDecoder() {
	response := strings.NewReader("id: 1\nevent: stdout\ndata: compiling\n\nid: 2\ndata: linking\n\ndata: cut o")
	decoder := sse.NewDecoder(response, nil)
	for {
		event, err := decoder.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type, string(event.Data))
	}
	fmt.Println("resume after", decoder.LastEventID())
	// Output:
	// stdout compiling
	// message linking
	// resume after 2
}
