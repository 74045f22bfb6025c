package ssehttp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/sse"
	"reprise/sse/ssehttp"
)

// TestManyReaders: 2,000 connections follow one stream and each gets all of it, while it grows and
// keeps less than it has got in memory.
func TestManyReaders(t *testing.T) {
	const readers, batches, perBatch = 2000, 10, 5
	site := newSite(t, &reprise.Options{TailBytes: 1}, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, perBatch)...)
	var ready, all sync.WaitGroup
	ready.Add(readers)
	for range readers {
		all.Go(func() {
			begun := sync.OnceFunc(ready.Done)
			defer begun()
			if err := followWhole(site.server.Listener.Addr().String(), batches*perBatch, begun); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	for i := 1; i < batches; i++ {
		add(t, s, numbered(i*perBatch+1, perBatch)...)
	}
	end(t, s)
	all.Wait()
}

// followWhole reads the stream s over a connection of its own, and calls begun with the first event.
func followWhole(addr string, events int, begun func()) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /s HTTP/1.1\r\nHost: s\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	d := sse.NewDecoder(res.Body, nil)
	for seq := 1; seq <= events+1; seq++ {
		e, err := d.Next()
		if err != nil {
			return fmt.Errorf("event %d: %w", seq, err)
		}
		if want := fmt.Sprintf("%d.", seq); e.ID[:len(want)] != want {
			return fmt.Errorf("event %d has the id %s", seq, e.ID)
		}
		begun()
	}
	if _, err := d.Next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the end: %w", err)
	}
	return nil
}

// TestReaderThatNeverReadsOverTCP: the kernel takes what it has room for; then the reader is closed, and
// nobody else has waited for it.
func TestReaderThatNeverReadsOverTCP(t *testing.T) {
	closed := make(chan struct{}, 2)
	hooks := &reprise.Hooks{ReaderClosed: func(reprise.StreamKey) { closed <- struct{}{} }}
	site := newSite(t, &reprise.Options{Hooks: hooks}, &ssehttp.Options{WriteTimeout: 2 * time.Second})
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, 1)...)
	c, err := net.Dial("tcp", site.server.Listener.Addr().String())
	check(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET /s HTTP/1.1\r\nHost: s\r\n\r\n")
	check(t, err)
	_, err = io.ReadFull(c, make([]byte, 1)) // it follows
	check(t, err)
	d := sse.NewDecoder(site.get(t, "s", "").Body, nil)
	take(t, d, 1)
	big := text(strings.Repeat("x", 400_000))
	for range 40 {
		add(t, s, big)
		take(t, d, 1)
	}
	select {
	case <-closed:
	case <-time.After(2 * time.Minute):
		t.Fatal("a reader that never reads is still there")
	}
	end(t, s)
	take(t, d, 1)
}

// TestClientThatGoesIsNoReader: a reader whose connection has ended is let go, though nothing is appended.
func TestClientThatGoesIsNoReader(t *testing.T) {
	closed := make(chan struct{}, 1)
	hooks := &reprise.Hooks{ReaderClosed: func(reprise.StreamKey) { closed <- struct{}{} }}
	site := newSite(t, &reprise.Options{Hooks: hooks}, nil)
	create(t, site.log, "s", reprise.Retention{})
	site.get(t, "s", "").Body.Close()
	select {
	case <-closed:
	case <-time.After(2 * time.Minute):
		t.Fatal("the reader of a client that has gone is still there")
	}
}
