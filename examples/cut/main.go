// Command cut is a bad network: it passes connections on to a server and resets the first
// ones, each after a random number of bytes.
//
//	go run ./examples/cut -target 127.0.0.1:7070 -times 20
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
)

func main() {
	target := flag.String("target", "127.0.0.1:7070", "where the server listens")
	times := flag.Int64("times", 20, "how many connections to cut")
	least := flag.Int64("min", 600, "the fewest bytes before a cut")
	most := flag.Int64("max", 12_000, "the most bytes before a cut")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	n := network{target: *target, times: *times, least: *least, most: *most}
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
	limit := n.least + rand.Int64N(n.most-n.least+1)
	got, _ := io.CopyN(client, server, limit)
	if got < limit {
		return // it ended by itself
	}
	if cut := n.cuts.Add(1); cut <= n.times {
		fmt.Printf("cut %d after %d bytes\n", cut, got)
		client.(*net.TCPConn).SetLinger(0) // what is still under way is lost
		return
	}
	_, _ = io.Copy(client, server)
}
