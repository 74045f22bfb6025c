package linear

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"reprise"
	"reprise/internal/storeurl"
	"reprise/internal/testserver"
)

// The test binary is also the replica that it kills. With this variable set it serves a Log on the store that the
// variable names. It reads requests from stdin and writes responses to stdout, a line of JSON each.
const replicaEnv = "REPRISE_LINEAR_REPLICA"

// request is one call of a replica's Log.
type request struct {
	ID     int    `json:"id"`
	Op     string `json:"op"` // those of input, and "create"
	Stream string `json:"stream"`
	// Producer and Seq make a write idempotent.
	Producer string `json:"producer,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Events   []int  `json:"events,omitempty"`
	After    uint64 `json:"after,omitempty"`
}

// response is the response to a request.
type response struct {
	ID       int    `json:"id"`
	Err      string `json:"err"`
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Events   []int  `json:"events"`
	Earliest uint64 `json:"earliest"`
	Tail     uint64 `json:"tail"`
	Ended    bool   `json:"ended"`
}

// again is the error of a call that can be retried.
const again = "again"

// serveReplica runs a replica.
func serveReplica(url, keys string) error {
	ctx := context.Background()
	ring, err := reprise.ParseKeyset([]byte(keys))
	if err != nil {
		return err
	}
	store, err := storeurl.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	var failures atomic.Int64 // failed reads of the store
	log, err := reprise.Open(ctx, store, &reprise.Options{Keys: ring, SweepEvery: -1, Hooks: &reprise.Hooks{
		StoreRead: func(read reprise.ReadInfo) {
			if read.Err != nil {
				failures.Add(1)
			}
		},
	}})
	if err != nil {
		return err
	}
	var out sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		go func() {
			before := failures.Load()
			p := answer(ctx, log, &q)
			if q.Op == "poll" && failures.Load() != before {
				p = response{Err: again} // during an outage a reader gets events in memory, which may be stale
			}
			p.ID = q.ID
			line, _ := json.Marshal(p)
			out.Lock()
			defer out.Unlock()
			_, _ = os.Stdout.Write(append(line, '\n'))
		}()
	}
	return nil
}

func answer(ctx context.Context, log *reprise.Log, q *request) response {
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: q.Stream}
	if q.Op == "create" {
		_, _, err := log.Create(ctx, key, reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: window}})
		return response{Err: remoteCode(err)}
	}
	s, err := log.Stream(ctx, key)
	if err != nil {
		return response{Err: remoteCode(err)}
	}
	switch q.Op {
	case "write", "end":
		return write(ctx, s, q)
	case "info":
		info, err := s.Info(ctx)
		return response{Err: remoteCode(err), Earliest: info.Earliest, Tail: info.Tail, Ended: info.End != nil}
	default:
		return poll(ctx, s, q.After)
	}
}

func write(ctx context.Context, s *reprise.Stream, q *request) response {
	opts := reprise.AppendOptions{Producer: &reprise.ProducerID{ID: q.Producer, Seq: q.Seq}}
	var events []reprise.Event
	for _, id := range q.Events {
		events = append(events, reprise.Event{Data: strconv.AppendInt(nil, int64(id), 10)})
	}
	var appended reprise.Appended
	var err error
	if q.Op == "end" {
		appended, err = s.EndWith(ctx, opts, "completed", events[0])
	} else {
		appended, err = s.AppendWith(ctx, opts, events...)
	}
	return response{Err: remoteCode(err), First: appended.First, Last: appended.Last}
}

func poll(ctx context.Context, s *reprise.Stream, after uint64) response {
	r, err := s.Reader(ctx, reprise.After(s.Cursor(after)))
	if err != nil {
		return response{Err: remoteCode(err)}
	}
	defer r.Close()
	run, err := r.Poll(ctx)
	p := response{Err: remoteCode(err)}
	if run.Len() > 0 {
		p.First, p.Last = run.First(), run.Last()
	}
	for e := range run.All() {
		id, err := strconv.Atoi(string(e.Data))
		if err != nil {
			p.Err = err.Error()
		}
		p.Events = append(p.Events, id)
	}
	return p
}

// remoteCode returns code, or again.
func remoteCode(err error) string {
	if errors.Is(err, reprise.ErrUnavailable) {
		return again
	}
	return code(err)
}

// replica is a replica process.
type replica struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu      sync.Mutex
	nextID  int
	waiting map[int]chan response
	dead    bool
}

// startReplica starts a replica process.
func startReplica(url, keys string) (*replica, error) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), replicaEnv+"="+url, replicaEnv+"_KEYS="+keys)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	testserver.EndWithParent(cmd.SysProcAttr)
	r := &replica{cmd: cmd, waiting: map[int]chan response{}}
	var err error
	if r.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("the replica did not start"), cmd.Wait())
	}
	go r.listen(lines)
	return r, nil
}

func (r *replica) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		var p response
		if json.Unmarshal(lines.Bytes(), &p) != nil {
			break
		}
		r.mu.Lock()
		if c := r.waiting[p.ID]; c != nil {
			c <- p
			delete(r.waiting, p.ID)
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	for _, c := range r.waiting {
		close(c)
	}
	r.waiting = nil
}

// call sends a request to the replica. ok is false if the replica died meanwhile.
func (r *replica) call(q request) (p response, ok bool) {
	c := make(chan response, 1)
	r.mu.Lock()
	if r.dead {
		r.mu.Unlock()
		return response{}, false
	}
	r.nextID++
	q.ID = r.nextID
	r.waiting[q.ID] = c
	line, _ := json.Marshal(q)
	_, _ = r.stdin.Write(append(line, '\n')) // listen detects a dead process
	r.mu.Unlock()
	p, ok = <-c
	return p, ok
}

// kill kills the process with SIGKILL.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func (r *replica) signal(s syscall.Signal) { _ = r.cmd.Process.Signal(s) }
