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

// post is a message to be sent to JetStream.
type post struct {
	subject string
	state   *state // for the header, if not nil
	body    []byte
	// expected is the sequence that the newest message of the subject must have, 0 for none. Otherwise the error is
	// errWrongLast. It is ignored if unconditional is set.
	expected      uint64
	unconditional bool
	// server is the id of the only server to which the message may be sent, "" for any. If another one is connected,
	// the error is errWrongLast.
	server string
	// alone deletes all earlier messages of the subject.
	alone bool
	// ttl is the time in seconds after which the server deletes the message, 0 for never.
	ttl int64

	seq uint64
	err error
}

// Headers that JetStream interprets.
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

// posting waits for the answers to several messages.
type posting struct {
	mu     sync.Mutex
	posts  []post
	open   []bool // not yet answered
	left   int
	nobody []int // messages that no server accepted
	done   chan struct{}
}

// answer records the server's answer to message i.
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

// close records that message i gets no further answer. The caller holds mu.
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

// acknowledged parses the answer of JetStream to a message.
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

// post sends messages, waits for the answers and stores seq and err in each post. After an error that wraps
// reprise.ErrUnavailable it is unknown whether the message was or will be stored. Messages that no server accepted, as
// while a cluster has no leader for the stream, are sent again.
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

// postOnce sends messages once. nobody holds the indexes of those that no server accepted.
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

// parallelism is the number of concurrent requests of one call.
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
