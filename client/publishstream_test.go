package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/client"
	"reprise/store/memstore"
)

// randomCutter dials connections that are cut at a random byte of what is sent or received, so many times.
type randomCutter struct {
	left   atomic.Int32
	random func(int64) int64
}

func (c *randomCutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || c.left.Add(-1) < 0 {
		return conn, err
	}
	cut := &doomedConn{Conn: conn}
	cut.left.Store(c.random(3000))
	return cut, nil
}

// doomedConn is cut when so many bytes have gone through it in both directions.
type doomedConn struct {
	net.Conn
	left atomic.Int64
}

func (c *doomedConn) Write(p []byte) (int, error) {
	if left := c.left.Add(-int64(len(p))); left < 0 {
		n, _ := c.Conn.Write(p[:max(0, int64(len(p))+left)])
		c.Conn.Close()
		return n, errCut
	}
	return c.Conn.Write(p)
}

func (c *doomedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left.Add(-int64(n)) < 0 {
		c.Conn.Close()
		return 0, errCut
	}
	return n, err
}

// numbersOf reads the numbers that are the data of a stream's events.
func numbersOf(t *testing.T, log *reprise.Log, name string) (numbers []int) {
	t.Helper()
	stream, err := log.Stream(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reader, err := stream.Reader(t.Context(), reprise.Position{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for len(numbers) < int(info.Tail) {
		run, err := reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for e := range run.All() {
			var n int
			if err := json.Unmarshal(e.Data, &n); err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// wantCount checks that a stream holds the numbers from 1 on, each once and in order.
func wantCount(t *testing.T, log *reprise.Log, name string, count int) {
	t.Helper()
	numbers := numbersOf(t, log, name)
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("event %d is number %d", i+1, n)
		}
	}
	if len(numbers) != count {
		t.Errorf("%d events, want %d", len(numbers), count)
	}
}

// openStream makes the stream "s" and begins to publish to it.
func openStream(
	t *testing.T, c *client.Client, opts *client.PublishStreamOptions,
) (*client.Producer, *client.PublishStream) {
	t.Helper()
	if _, err := c.CreateStream(t.Context(), "s", client.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	producer := c.Producer("s")
	stream, err := producer.Stream(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return producer, stream
}

func publishNumbers(t *testing.T, s *client.PublishStream, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if err := s.Publish(client.NewEvent{Type: "note", Data: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPublishStreamPublishesOnce: 200 cuts at random bytes of requests and answers lose and double nothing, and what is
// acknowledged adds up.
func TestPublishStreamPublishesOnce(t *testing.T) {
	t.Parallel()
	address, log := liveServerOn(t, memstore.New(nil))
	cuts := &randomCutter{random: rand.New(rand.NewPCG(3, 4)).Int64N}
	transport := &http.Transport{DialContext: cuts.dial, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(&client.Options{
		URL: address, Token: liveToken, HTTPClient: &http.Client{Transport: transport}, MinWait: time.Millisecond,
		MaxWait: time.Millisecond, GiveUp: 10 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	var last uint64
	producer, s := openStream(t, c, &client.PublishStreamOptions{Acknowledged: func(p client.Published) {
		if p.Last > 0 && p.Last < last {
			t.Errorf("acknowledged %d after %d", p.Last, last)
		}
		last = max(last, p.Last)
	}})
	cuts.left.Store(200)
	count := 0
	for cuts.left.Load() > 0 || count < 2000 {
		publishNumbers(t, s, count+1, count+50)
		count += 50
		if count%500 == 0 {
			if _, err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	published, err := s.Close()
	if err != nil || published.Last != uint64(count) || published.Cursor == "" || last != uint64(count) {
		t.Errorf("closed with %+v, %v; %d was acknowledged last", published, err, last)
	}
	wantCount(t, log, "s", count)
	one, err := producer.Publish(t.Context(), client.NewEvent{Data: fmt.Append(nil, count+1)})
	if err != nil || one.First != uint64(count)+1 {
		t.Errorf("a call after the stream: %+v, %v", one, err)
	}
	again, err := producer.Stream(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	publishNumbers(t, again, count+2, count+10)
	if _, err := again.Close(); err != nil {
		t.Error(err)
	}
	wantCount(t, log, "s", count+10)
}

// TestPublishStreamIsAcknowledgedAsItGoes: what was published is kept before more comes.
func TestPublishStreamIsAcknowledgedAsItGoes(t *testing.T) {
	t.Parallel()
	address, log := liveServerOn(t, memstore.New(nil))
	_, s := openStream(t, liveClient(t, address, &cutter{after: -1}), nil)
	for i := range 20 {
		publishNumbers(t, s, i+1, i+1)
		published, err := s.Flush()
		if err != nil || published.Last != uint64(i+1) || published.First != uint64(i+1) {
			t.Fatalf("%+v, %v", published, err)
		}
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
	wantCount(t, log, "s", 20)
	if err := s.Publish(client.NewEvent{}); !errors.Is(err, reprise.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

// TestPublishStreamBehindAProxyThatCollects: where bodies are held back until they end, requests are made short.
func TestPublishStreamBehindAProxyThatCollects(t *testing.T) {
	t.Parallel()
	address, log := liveServerOn(t, memstore.New(nil))
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	reverse := httputil.NewSingleHostReverseProxy(target)
	var requests atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		requests.Add(1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		reverse.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	c, err := client.New(&client.Options{URL: proxy.URL, Token: liveToken, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	_, s := openStream(t, c, nil)
	publishNumbers(t, s, 1, 100)
	if published, err := s.Flush(); err != nil || published.Last != 100 {
		t.Fatalf("%+v, %v", published, err)
	}
	publishNumbers(t, s, 101, 200)
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
	wantCount(t, log, "s", 200)
	if n := requests.Load(); n < 3 {
		t.Errorf("%d requests", n)
	}
}

// TestPublishStreamFails: a refusal that repeating does not mend ends the stream at once, and the Producer goes on.
func TestPublishStreamFails(t *testing.T) {
	t.Parallel()
	address, _ := liveServerOn(t, memstore.New(nil))
	producer, s := openStream(t, liveClient(t, address, &cutter{after: -1}), nil)
	if err := s.Publish(client.NewEvent{Data: json.RawMessage("{")}); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("no JSON: %v", err)
	}
	publishNumbers(t, s, 1, 3)
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(client.NewEvent{Type: "end"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Flush(); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("a reserved type: %v", err)
	}
	if published, err := s.Close(); !errors.Is(err, reprise.ErrInvalid) || published.Last != 3 {
		t.Errorf("closed with %+v, %v", published, err)
	}
	if published, err := producer.Publish(t.Context(), client.NewEvent{}); err != nil || published.First != 4 {
		t.Errorf("the Producer: %+v, %v", published, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	other, err := producer.Stream(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := other.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
