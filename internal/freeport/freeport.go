// Package freeport finds ports of the loopback interface for servers that are given a port number, or that are stopped
// and started again at the same address.
//
// The system also uses the ports that it assigns for ":0" for outgoing connections, so another program may get such a
// port while its server is stopped. This package chooses ports below that range on Linux, macOS and Windows. It returns
// each port once: to no other caller in this process, nor in another process that uses this package at the same time.
// Browsers, and fetch in Node, refuse some ports ("bad ports" in the Fetch standard), all of which are below it too.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are from first to last-1.
const (
	first = 11_000 // the last port that browsers refuse is 10080
	last  = 32_000
)

// Find returns a port at which no program listens now. If offset is not 0, the port that is higher by that much
// is free too, and it is below last too.
func Find(offset int) (int, error) {
	for range 100 {
		port := first + rand.IntN(last-first-offset)
		if take(port) && (offset == 0 || take(port+offset)) {
			return port, nil
		}
	}
	return 0, errors.New("no free port")
}

// given are the ports that this process was given.
var given struct {
	sync.Mutex
	ports map[int]bool
}

// take reports whether a port is free and not taken, which makes it the caller's.
func take(port int) bool {
	given.Lock()
	defer given.Unlock()
	if given.ports[port] || !reserve(port) || !free(port) {
		return false
	}
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	given.ports[port] = true
	return true
}

func free(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Address returns 127.0.0.1 with a port at which no program listens now.
func Address() (string, error) {
	port, err := Find(0)
	if err != nil {
		return "", err
	}
	return address(port), nil
}
