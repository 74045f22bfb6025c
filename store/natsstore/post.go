package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// post is a message on its way to JetStream.
type post struct {
	subject string
	state   *state // in the header, if not nil
	body    []byte
	// expected is the sequence of the newest message of the subject, 0 if it must have none. Otherwise the
	// error is errWrongLast. It does not count where unconditional is set.
	expected      uint64
	unconditional bool
	// server is the id of the one server that the message may be sent to, "" for any. Where another is connected to the
	// error is errWrongLast.
	server string
	// alone drops all earlier messages of the subject.
	alone bool
	// ttl is after how many seconds the server forgets the message, 0 for never.
	ttl int64

	seq uint64
	err error
}

// The headers that JetStream obeys.
const (
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
	headerRollup   = "Nats-Rollup"
	headerTTL      = "Nats-TTL"
)

func (p *post) message(by writerID, reply string) *nats.Msg {
	msg := &nats.Msg{Subject: p.subject, Reply: reply, Data: p.body, Header: nats.Header{}}
	if p.state != nil {
		msg.Header[header] = []string{p.state.encode(by)}
	}
	if !p.unconditional {
		msg.Header[headerExpected] = []string{strconv.FormatUint(p.expected, 10)}
	}
	if p.alone {
		msg.Header[headerRollup] = []string{"sub"}
	}
	if p.ttl > 0 {
		msg.Header[headerTTL] = []string{strconv.FormatInt(p.ttl, 10) + "s"}
	}
	return msg
}

// posting waits for the answers to many messages.
type posting struct {
	mu     sync.Mutex
	posts  []post
	open   []bool // not yet answered
	left   int
	nobody []int // those that no server took
	done   chan struct{}
}

// answer notes what the server says of message i.
func (g *posting) answer(i int, msg *nats.Msg) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i >= len(g.posts) || !g.open[i] {
		return
	}
	p := &g.posts[i]
	if status(msg) == noResponders {
		p.err = errNobody
		g.nobody = append(g.nobody, i)
	} else {
		p.seq, p.err = acknowledged(msg.Data)
	}
	g.close(i)
}

// close notes that nothing more is to come for message i. The caller holds mu.
func (g *posting) close(i int) {
	g.open[i] = false
	if g.left--; g.left == 0 {
		close(g.done)
	}
}

func (g *posting) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.open {
		if g.open[i] {
			g.posts[i].err = err
			g.close(i)
		}
	}
}

// acknowledged reads the answer of JetStream to a message.
func acknowledged(b []byte) (seq uint64, err error) {
	var ack struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(b, &ack); {
	case err != nil:
		return 0, unavailable(err)
	case ack.Error != nil:
		return 0, apiError(ack.Error)
	case ack.Seq == 0:
		return 0, unavailable(errIncomplete)
	}
	return ack.Seq, nil
}

// post sends messages and waits for the answers, which it puts into seq and err of each. An error that wraps
// reprise.ErrUnavailable leaves open whether the message was, or will be, stored. Messages that no server has
// taken, as while a cluster has no leader for the stream, are sent again.
func (s *Store) post(ctx context.Context, posts []post) {
	left := make([]int, len(posts))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		if err := s.wire.ready(ctx); err != nil {
			failPosts(posts, left, err)
			return
		}
		round := make([]post, len(left))
		for k, i := range left {
			round[k] = posts[i]
		}
		nobody := s.postOnce(ctx, round)
		for k, i := range left {
			posts[i] = round[k]
		}
		again := make([]int, len(nobody))
		for n, k := range nobody {
			again[n] = left[k]
		}
		if left = again; len(left) > 0 {
			if err := pause(ctx, retryEvery); err != nil {
				if errors.Is(err, errTimeout) {
					err = unavailable(errNobody)
				}
				failPosts(posts, left, err)
				return
			}
		}
	}
}

func failPosts(posts []post, which []int, err error) {
	for _, i := range which {
		posts[i].err = err
	}
}

// postOnce sends messages once. nobody are those that no server has taken.
func (s *Store) postOnce(ctx context.Context, posts []post) (nobody []int) {
	g := &posting{posts: posts, open: make([]bool, len(posts)), left: len(posts), done: make(chan struct{})}
	for i := range g.open {
		g.open[i] = true
	}
	id, reply := s.wire.await(g)
	defer s.wire.leave(id)
	reply += "."
	for i := range posts {
		if to := posts[i].server; to != "" && to != s.wire.nc.ConnectedServerId() {
			g.sendFailed(i, errWrongLast)
			continue
		}
		if err := s.wire.nc.PublishMsg(posts[i].message(s.writer, reply+strconv.Itoa(i))); err != nil {
			g.sendFailed(i, unavailable(s.wire.sendError(err)))
		}
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		g.fail(ended(ctx))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nobody
}

func (g *posting) sendFailed(i int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[i] {
		g.posts[i].err = err
		g.close(i)
	}
}

func sumOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// putParts writes something large as several messages.
func (s *Store) putParts(ctx context.Context, subject string, b []byte) ([]part, error) {
	var posts []post
	for len(b) > 0 {
		n := min(len(b), s.room)
		posts = append(posts, post{subject: subject, body: b[:n:n], unconditional: true})
		b = b[n:]
	}
	s.post(ctx, posts)
	parts := make([]part, len(posts))
	for i := range posts {
		if posts[i].err != nil {
			return nil, posts[i].err
		}
		parts[i] = part{seq: posts[i].seq, len: len(posts[i].body)}
	}
	return parts, nil
}

// parallelism is how many questions to the server are under way at a time, for one call.
const parallelism = 32

// parallel calls f with 0 to n-1, several at a time.
func parallel(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, parallelism)
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			f(i)
			<-room
		})
	}
	wg.Wait()
}
