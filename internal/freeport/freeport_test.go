package freeport_test

import (
	"net"
	"strconv"
	"testing"

	"reprise/internal/freeport"
)

// TestPortIsNoneOfOutgoingConnections: nobody listens at the port and the other one, and both are below those that
// systems give to connections.
func TestPortIsNoneOfOutgoingConnections(t *testing.T) {
	for range 50 {
		port, err := freeport.Find(10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []int{port, port + 10_000} {
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if err != nil || p >= 32_768 || p < 1024 {
				t.Fatalf("port %d: %v", p, err)
			}
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	if host, _, err := net.SplitHostPort(address); err != nil || host != "127.0.0.1" {
		t.Errorf("%q, %v", address, err)
	}
}
