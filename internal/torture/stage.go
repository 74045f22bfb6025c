//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"reprise/internal/cutproxy"
	"reprise/internal/freeport"
)

// stage is one store with its servers, writers, readers and faults.
type stage struct {
	opts   *options
	name   string
	dir    string
	seed   uint64
	engine engine
	ledger *ledger
	rnd    *rand.Rand // of the faults

	replicas []*replica
	fronts   []*cutproxy.Proxy
	calls    *caller // through the fronts
	direct   *caller
	streams  []*stream
	readers  []*reader
	enders   sync.WaitGroup
	began    time.Time
	took     time.Duration
}

func newStage(o *options, name, dir string, seed uint64, e engine) *stage {
	return &stage{
		opts: o, name: name, dir: dir, seed: seed, engine: e, ledger: newLedger(),
		rnd: rand.New(rand.NewPCG(seed, 0)), began: time.Now(),
		streams: []*stream{
			{name: "busy"},
			{name: "window", small: true},
			{name: "early", early: !e.canLose()}, // an end that may be lost proves nothing
		},
	}
}

const (
	// settleWithin bounds the phase after the faults: recovery, ends and readers.
	settleWithin = 60 * time.Second
	// checkWithin bounds the comparison, which takes a second or two on a quiet machine.
	checkWithin = 5 * time.Minute
)

// run runs the whole stage. An error is a failure of the machine or of this program, not a violation.
func (s *stage) run(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	stores := len(s.opts.stores)
	share := s.opts.total * time.Duration(min(max(s.opts.atOnce, 1), stores)) / time.Duration(stores)
	trouble, cancel := context.WithTimeout(ctx, max(share-time.Since(s.began)-8*time.Second, 5*time.Second))
	defer cancel()
	writing, stopWriting := context.WithCancel(ctx)
	reading, stopReading := context.WithCancel(ctx)
	defer stopWriting()
	defer stopReading()
	var writers, readers, idle sync.WaitGroup
	s.startWriters(writing, &writers)
	s.startReaders(reading, &readers)
	s.startIdle(trouble, &idle)
	s.startStranger(trouble, &idle)
	s.startBounds(trouble, &idle)
	whole, stopEnders := context.WithCancel(ctx)
	defer stopEnders()
	err := s.trouble(trouble, whole)
	idle.Wait()
	if err != nil || ctx.Err() != nil {
		stopWriting()
		stopReading()
		writers.Wait()
		readers.Wait()
		stopEnders()
		s.enders.Wait()
		return errors.Join(err, ctx.Err())
	}
	settling, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	s.recover(settling)
	pause(settling, time.Second) // let the writers run without faults
	stopWriting()
	writers.Wait()
	s.enders.Wait()
	s.endEach(settling, false)
	s.awaitReaders(settling, &readers, stopReading)
	checking, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	s.check(checking)
	s.took = time.Since(s.began)
	return nil
}

// makeSecrets creates the secrets that the servers share.
func (s *stage) makeSecrets(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, s.opts.binary, "secrets", filepath.Join(s.dir, "secrets")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("secrets: %w: %s", err, out)
	}
	return nil
}

// open starts the servers and creates the streams.
func (s *stage) open(ctx context.Context) error {
	n := 1
	if s.engine.shared() {
		n = 2
	}
	if err := s.makeSecrets(ctx); err != nil {
		return err
	}
	var direct, fronts []string
	for i := range n {
		addr, err := freeport.Address()
		if err != nil {
			return err
		}
		r := &replica{binary: s.opts.binary, dir: filepath.Join(s.dir, fmt.Sprint("replica", i)), addr: addr}
		r.flags = append([]string{
			"--secrets", filepath.Join(s.dir, "secrets"), "--store", s.engine.storeURL(),
			"--replica", fmt.Sprint("r", i),
		}, s.opts.serve...)
		if !s.opts.noHeartbeat {
			r.flags = append(r.flags, "--heartbeat", s.opts.heartbeat.String())
		}
		if err := os.MkdirAll(r.dir, 0o755); err != nil {
			return err
		}
		if err := r.start(); err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
		front, err := cutproxy.Listen(r.addr, nil)
		if err != nil {
			return err
		}
		s.fronts = append(s.fronts, front)
		direct, fronts = append(direct, "http://"+r.addr), append(fronts, "http://"+front.Addr())
	}
	token, err := os.ReadFile(filepath.Join(s.dir, "secrets", "token"))
	if err != nil {
		return err
	}
	s.calls = newCaller(fronts, strings.TrimSpace(string(token)))
	s.direct = newCaller(direct, s.calls.token)
	return s.create(ctx)
}

func (s *stage) create(ctx context.Context) error {
	for _, st := range append(s.streams, idleStream) {
		most := 10_000_000
		if st.small {
			most = windowEvents
		}
		a, err := s.calls.call(ctx, 0, &request{
			http.MethodPut, st.path(),
			map[string]string{"Content-Type": "application/json"},
			fmt.Appendf(nil, `{"retention":{"max_events":%d,"max_bytes":2000000000}}`, most),
		})
		if err != nil {
			return err
		}
		if a.status != http.StatusCreated {
			return fmt.Errorf("the stream %s: status %d: %s", st.name, a.status, a.body)
		}
	}
	return nil
}

func (s *stage) newWriter(name string, st *stream, withProducer bool) *writer {
	w := &writer{s: s, name: st.name + "-" + name, stream: st, rnd: s.rand(name + st.name)}
	w.turn = w.rnd.IntN(2)
	if withProducer {
		w.producer = &producer{id: w.name}
	}
	return w
}

// rand returns the random numbers of one writer or reader.
func (s *stage) rand(name string) *rand.Rand {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(s.seed, h))
}

func (s *stage) startWriters(ctx context.Context, wg *sync.WaitGroup) {
	for _, st := range s.streams {
		for i := range 2 {
			wg.Go(func() { s.newWriter(fmt.Sprint("plain", i), st, false).write(ctx) })
			wg.Go(func() { s.newWriter(fmt.Sprint("producer", i), st, true).write(ctx) })
		}
		wg.Go(func() { s.newWriter("misuser", st, true).misuse(ctx) })
	}
}

func (s *stage) startReaders(ctx context.Context, wg *sync.WaitGroup) {
	for _, st := range s.streams {
		for _, f := range forms {
			name := st.name + " " + f.name
			r := &reader{s: s, name: name, stream: st, form: f, rnd: s.rand(name)}
			s.readers = append(s.readers, r)
			wg.Go(func() { r.follow(ctx) })
		}
	}
}

// recover restarts everything that has ended and waits until the servers are ready.
func (s *stage) recover(ctx context.Context) {
	for i := range s.replicas {
		for {
			a, err := s.direct.call(ctx, i, &request{method: http.MethodGet, path: "/readyz"})
			if err == nil && a.status == http.StatusOK {
				break
			}
			if ctx.Err() != nil {
				s.ledger.violation("server %d is not ready although nothing is wrong any more: %v, its log: %s",
					i, err, s.replicas[i].log())
				return
			}
			pause(ctx, 50*time.Millisecond)
		}
	}
}

// endEach ends either the streams that end early or the others, each through all servers at once. One of the calls
// succeeds.
func (s *stage) endEach(ctx context.Context, early bool) {
	for _, st := range s.streams {
		if st.early != early {
			continue
		}
		var wg sync.WaitGroup
		var ends atomic.Int32
		for i := range 2 {
			wg.Go(func() {
				w := s.newWriter(fmt.Sprint("ender", i), st, true)
				w.turn = i
				if w.end(ctx) {
					ends.Add(1)
				}
			})
		}
		wg.Wait()
		if n := ends.Load(); n != 1 && ctx.Err() == nil {
			s.ledger.violation("stream %s: %d of 2 calls have ended it", st.name, n)
		}
	}
}

// awaitReaders waits for the readers to reach the ends.
func (s *stage) awaitReaders(ctx context.Context, wg *sync.WaitGroup, stop func()) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	stop()
	<-done
	for _, r := range s.readers {
		if !r.ended {
			r.violation("it has not reached the end within %v after the last fault", settleWithin)
		}
	}
}

func (s *stage) close() error {
	var errs []error
	for _, p := range s.fronts {
		p.Close()
	}
	for _, r := range s.replicas {
		errs = append(errs, r.signal(syscall.SIGCONT), r.end(syscall.SIGKILL))
	}
	return errors.Join(append(errs, s.engine.close())...)
}
