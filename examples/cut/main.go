// Command cut is a bad network: it passes connections on to a server and resets the first
// ones, each after a random number of bytes.
//
//	go run ./examples/cut -target 127.0.0.1:7070 -times 20
//
// With -after 2s it resets connections that long after they were opened, whatever has passed; with -on TEXT besides,
// those alone on which the client sends TEXT, that long after.
//
// It prints the address that it listens on, and a line for each cut. When it has cut
// often enough it passes everything on.
package main

import (
	"bytes"
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
	on := flag.String("on", "", "with -after: count from when the client sends this text, and cut no other connections")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	n := network{target: *target, times: *times, least: *least, most: *most, after: *after, on: []byte(*on)}
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
	on                 []byte
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
	timer := time.AfterFunc(1<<62, func() { n.reset(client, "after "+n.after.String()) }) // not yet
	defer timer.Stop()
	if n.after > 0 && len(n.on) == 0 {
		timer.Reset(n.after)
	}
	go func() {
		_, _ = io.Copy(server, &watched{Reader: client, text: n.on, seen: func() { timer.Reset(n.after) }})
		server.Close()
	}()
	if n.after > 0 {
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

// watched calls seen when it has read text for the first time.
type watched struct {
	io.Reader
	text, last []byte
	seen       func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if len(w.text) == 0 {
		return n, err
	}
	w.last = append(w.last, p[:n]...)
	if bytes.Contains(w.last, w.text) {
		w.seen()
		w.text = nil
		return n, err
	}
	w.last = w.last[max(0, len(w.last)-len(w.text)+1):]
	return n, err
}
