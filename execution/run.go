package execution

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"reprise"
)

// run is an execution that has not ended, from its start to its end event.
type run struct {
	host    *Host
	key     reprise.StreamKey
	id      string
	session string
	request Request
	stream  *reprise.Stream
	stdin   *stdin
	created time.Time

	turn    chan struct{} // closed when it may begin
	decided chan struct{} // closed with verdict
	hurry   chan struct{} // a token: do not wait for what is left of its output
	done    chan struct{} // closed when it is over

	output atomic.Int64 // bytes of output that were read

	mu       sync.Mutex
	status   Status
	verdict  *verdict
	exited   bool // the process has ended
	child    *child
	isolated *Isolation
	// bytes and tail are of what was appended, in one consistent view.
	bytes Bytes
	tail  uint64
	// who follows; see follow.go.
	followers int
	alone     *time.Timer

	appends uint64 // the writer's
}

func newRun(h *Host, key reprise.StreamKey, id string, req Request) *run {
	return &run{
		host: h, key: key, id: id, session: req.Session, request: req, status: StatusQueued,
		stdin: newStdin(req.StdinOpen, req.TTY != nil),
		turn:  make(chan struct{}), decided: make(chan struct{}),
		hurry: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// run does it all, in a goroutine of its own.
func (r *run) run() {
	defer r.host.finished(r)
	defer r.stdin.end()
	select {
	case <-r.turn:
	case <-r.decided:
	}
	if r.isDecided() { // in the queue, or just as its turn came
		r.end(nil, ending{})
		return
	}
	if hook := r.host.opts.Hooks.Started; hook != nil {
		hook(r.key.Tenant, time.Since(r.created))
	}
	t := r.host.newTree(r)
	defer t.close()
	c, remove, err := r.launch(t)
	defer remove()
	if err != nil {
		r.end(nil, ending{Outcome: FailedToStart, Error: err.Error()})
		return
	}
	defer c.close()
	r.attend(c)
}

// launch starts the process.
func (r *run) launch(t tree) (c *child, remove func(), err error) {
	r.isolated = isolate(t, r.request.level(), r.request.Limits)
	sp, remove, err := r.spec()
	if err != nil {
		return nil, remove, err
	}
	c, err = startChild(r.host.spawner, sp, t)
	if err != nil {
		return nil, remove, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child = c
	return c, remove, nil
}

// spec says how the command of the request is started.
func (r *run) spec() (sp *spec, remove func(), err error) {
	req := &r.request
	remove = func() {}
	sp = &spec{
		argv: req.Argv, cwd: req.cwd(r.host.opts.Dir), tty: req.TTY,
		stdin: req.StdinOpen || len(req.input()) > 0,
		environ: environ(os.Environ(), r.host.opts.PassEnv, req.Env, req.TTY != nil,
			envID+"="+r.id, markOf(r.epoch())),
	}
	switch {
	case req.Command != "":
		sp.argv = []string{"sh", "-c", req.Command}
	case req.Language != "":
		l := languages[req.Language]
		var file string
		if file, remove, err = l.writeCode(r.host.opts.StateDir, req.Code); err != nil {
			return nil, func() {}, err
		}
		sp.argv, err = l.argv(variable(sp.environ, "PATH"), file)
	}
	return sp, remove, err
}

// markOf is the entry in the environment of all processes of a run.
func markOf(epoch reprise.Epoch) string { return envEpoch + "=" + string(epoch) }

// attend is with the process from its start to the end event.
func (r *run) attend(c *child) {
	spool := newSpool()
	r.announce(c, spool)
	pumps := r.pumps(c, spool)
	var reading, writing, feeding sync.WaitGroup
	for _, p := range pumps {
		reading.Go(p.run)
	}
	writing.Go(func() { r.write(spool) })
	if c.stdin != nil {
		feeding.Go(func() { r.stdin.start(c.stdin, r.request.input(), r.request.StdinOpen) })
	}
	drained := make(chan struct{})
	go func() {
		reading.Wait()
		close(drained)
	}()

	m := newMeter(c.tree, r.request.Limits)
	ended := r.watch(c, m)
	truncated := r.drain(c, pumps, drained)
	m.sample()
	c.tree.kill() // nothing of an execution outlives it
	r.stdin.end()
	feeding.Wait()
	spool.close()
	writing.Wait()

	x, err := c.reap()
	e := ending{
		Started: ms(c.started), DurationMS: ended.Sub(c.started).Milliseconds(), Isolation: r.isolated,
		OutputTruncated: truncated || r.outputCut(),
	}
	if err != nil {
		e.Outcome, e.Error = Lost, err.Error()
	}
	usage := m.usage(x.usage)
	e.Usage = &usage
	r.end(&x, e)
}

// announce puts the started event in front of all output.
func (r *run) announce(c *child, s *spool) {
	said := describe(&r.request)
	data, err := json.Marshal(struct {
		ID        string     `json:"id"`
		Argv      []string   `json:"argv,omitempty"`
		Command   string     `json:"command,omitempty"`
		Language  string     `json:"language,omitempty"`
		PID       int        `json:"pid"`
		Isolation *Isolation `json:"isolation"`
	}{r.id, said.Argv, said.Command, said.Language, c.process.Pid, r.isolated})
	if err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	s.add(eventStarted, reprise.FormatMembers, data)
}

// eventStarted is the type of the first event of an execution whose process was started.
const eventStarted = "started"

func (r *run) pumps(c *child, s *spool) []*pump {
	pumps := []*pump{{channel: Stdout, file: c.stdout, spool: s, admit: r.admit}}
	if c.stderr != nil {
		pumps = append(pumps, &pump{channel: Stderr, file: c.stderr, spool: s, admit: r.admit})
	}
	return pumps
}

// admit counts n bytes of output and says how many of them are within the limit.
func (r *run) admit(n int) int {
	limit := r.request.Limits.OutputBytes
	sum := r.output.Add(int64(n))
	if limit == 0 || sum <= limit {
		return n
	}
	r.decide(verdict{outcome: LimitExceeded, limit: limitOutput, now: true})
	return int(max(0, int64(n)-(sum-limit)))
}

// outputCut reports whether output was dropped because of the limit.
func (r *run) outputCut() bool {
	limit := r.request.Limits.OutputBytes
	return limit > 0 && r.output.Load() > limit
}

// watch waits for the end of the process, which it brings about when that is decided.
// It returns when the process ended.
func (r *run) watch(c *child, m *meter) time.Time {
	exited := make(chan time.Time, 1)
	go func() {
		c.await()
		r.processEnded()
		exited <- time.Now()
	}()
	var timeout <-chan time.Time
	if d := r.timeout(); d > 0 {
		timer := time.NewTimer(time.Until(c.started.Add(d)))
		defer timer.Stop()
		timeout = timer.C
	}
	sample := time.NewTimer(m.every)
	defer sample.Stop()
	decided := r.decided
	var patience <-chan time.Time
	for {
		select {
		case end := <-exited:
			return end
		case <-timeout:
			r.decide(verdict{outcome: TimedOut})
		case <-sample.C:
			if limit := m.sample(); limit != "" {
				r.decide(verdict{outcome: LimitExceeded, limit: limit, now: true})
			}
			sample.Reset(m.every)
		case <-decided:
			decided = nil
			patience = r.terminate(c)
		case <-patience:
			c.tree.kill()
			patience = time.After(killPatience) // in case it was not killed: it sleeps in the kernel
		}
	}
}

// terminate asks the tree to end and returns when to stop asking.
func (r *run) terminate(c *child) <-chan time.Time {
	if r.verdict.now { // verdict does not change any more
		return time.After(0)
	}
	c.tree.signal(syscall.SIGTERM)
	c.tree.signal(syscall.SIGCONT) // one that is stopped does not see TERM
	return time.After(r.grace())
}

func (r *run) timeout() time.Duration {
	d, most := time.Duration(r.request.Timeout), r.host.opts.MaxTimeout
	if d == 0 || most > 0 && d > most {
		return most
	}
	return d
}

// drain waits until the output of a process that has ended is read. Others of its tree may
// hold the pipes open: they get DrainTimeout, and then output may be missing. How long the
// store takes does not count.
func (r *run) drain(c *child, pumps []*pump, drained <-chan struct{}) (truncated bool) {
	timer := time.NewTimer(r.host.opts.DrainTimeout)
	defer timer.Stop()
	select {
	case <-drained:
		return false
	case <-r.hurry:
	case <-timer.C:
	}
	truncated = c.tree.kill() > 0
	for _, p := range pumps {
		p.finish()
	}
	<-drained
	for _, p := range pumps {
		truncated = truncated || p.cut
	}
	return truncated
}

// write appends what is in the spool until it is closed.
func (r *run) write(s *spool) {
	err := s.drain(func(events []reprise.Event) error {
		if d := s.stall(); d > 0 && r.host.opts.Hooks.Stalled != nil {
			r.host.opts.Hooks.Stalled(r.key.Tenant, d)
		}
		return r.append(events)
	})
	if err != nil {
		s.abandon()
		r.host.opts.Logger.Error("the output of an execution cannot be kept", "execution", r.id, "tenant", r.key.Tenant, "error", err)
		r.decide(verdict{outcome: Cancelled, reason: "its output cannot be kept", now: true})
	}
}

func (r *run) append(events []reprise.Event) error {
	appended, err := r.persist(func(ctx context.Context, opts reprise.AppendOptions) (reprise.Appended, error) {
		return r.stream.AppendWith(ctx, opts, events...)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tail = appended.Last
	for i := range events {
		switch events[i].Type {
		case Stdout:
			r.bytes.Stdout += int64(len(events[i].Data))
		case Stderr:
			r.bytes.Stderr += int64(len(events[i].Data))
		}
	}
	return nil
}

// producerID names the runs as idempotent producers of their streams: an append whose
// answer was lost is tried again and is kept once.
const producerID = "run"

// The time between two tries to append begins with the first and goes up to the last.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

// persist appends until that succeeds or cannot succeed any more.
func (r *run) persist(appendTo func(context.Context, reprise.AppendOptions) (reprise.Appended, error)) (reprise.Appended, error) {
	opts := reprise.AppendOptions{Producer: &reprise.ProducerID{ID: producerID, Seq: r.appends}}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		appended, err := appendTo(r.host.ctx, opts)
		switch {
		case err == nil:
			r.appends++
			return appended, nil
		case !errors.Is(err, reprise.ErrUnavailable) && !errors.Is(err, reprise.ErrQuota):
			return appended, err
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-timer.C:
		case <-r.host.ctx.Done():
			timer.Stop()
			return appended, context.Cause(r.host.ctx)
		}
	}
}

// end appends the end event. x is nil if there was no process.
func (r *run) end(x *exit, e ending) {
	e = r.judge(x, e)
	_, err := r.persist(func(ctx context.Context, opts reprise.AppendOptions) (reprise.Appended, error) {
		return r.stream.EndWith(ctx, opts, string(e.Outcome), reprise.Event{Format: reprise.FormatMembers, Data: e.marshal()})
	})
	if err != nil {
		r.host.opts.Logger.Error("an execution has no end", "execution", r.id, "tenant", r.key.Tenant, "outcome", e.Outcome, "error", err)
		return
	}
	if hook := r.host.opts.Hooks.Ended; hook != nil {
		hook(r.key.Tenant, e.Outcome, time.Duration(e.DurationMS)*time.Millisecond)
	}
}
