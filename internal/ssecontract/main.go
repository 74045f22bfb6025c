// Command ssecontract puts package sseclient behind the service contract of LaunchDarkly's public suite for clients of
// Server-Sent Events, sse-contract-tests: POST / starts a client, which tells what it reads to a callback URL.
//
//	go run ./internal/ssecontract -listen 127.0.0.1:8000
//
// It prints the address that it listens on. scripts/sse-contract runs the suite against it, where its program is there,
// and the tests of this package drive it through the same contract with cases of our own.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the loopback address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	s := newService()
	s.quit = func() { os.Exit(0) }
	log.Fatal(http.Serve(listener, s)) // on loopback, for one test
}
