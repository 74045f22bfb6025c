// Command cut is a bad network: it passes connections on to a server and resets the first
// ones, each after a random number of bytes.
//
//	go run ./examples/cut -target 127.0.0.1:7070 -times 20
//
// With -after 2s it resets connections that long after they were opened, whatever has passed.
//
// It prints the address that it listens on, and a line for each cut. When it has cut
// often enough it passes everything on.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

func main() {
	target := flag.String("target", "127.0.0.1:7070", "where the server listens")
	times := flag.Int64("times", 20, "how many connections to cut")
	least := flag.Int64("min", 600, "the fewest bytes before a cut")
	most := flag.Int64("max", 12_000, "the most bytes before a cut")
	after := flag.Duration("after", 0, "cut a connection when it is so old, in place of after so many bytes")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	n := network{target: *target, times: *times, least: *least, most: *most, after: *after}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go n.pass(client)
	}
}

type network struct {
	target             string
	times, least, most int64
	after              time.Duration
	cuts               atomic.Int64
}

// pass carries a connection until either side closes it, or until it is its turn to be cut.
func (n *network) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", n.target)
	if err != nil {
		log.Print(err)
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	if n.after > 0 {
		timer := time.AfterFunc(n.after, func() { n.reset(client, "when it was "+n.after.String()+" old") })
		defer timer.Stop()
		_, _ = io.Copy(client, server)
		return
	}
	limit := n.least + rand.Int64N(n.most-n.least+1)
	got, _ := io.CopyN(client, server, limit)
	if got < limit {
		return // it ended by itself
	}
	if !n.reset(client, fmt.Sprintf("after %d bytes", got)) {
		_, _ = io.Copy(client, server)
	}
}

// reset cuts a connection and says so, unless there were cuts enough.
func (n *network) reset(client net.Conn, why string) bool {
	cut := n.cuts.Add(1)
	if cut > n.times {
		return false
	}
	fmt.Printf("cut %d %s\n", cut, why)
	client.(*net.TCPConn).SetLinger(0) // what is still under way is lost
	client.Close()
	return true
}
