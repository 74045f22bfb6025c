package clienttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reprise/internal/cutproxy"
)

// Options are the settings of Run.
type Options struct {
	// Command starts the service.
	Command []string
	// Program is the path of the reprise binary that serves.
	Program string
	// Only, if not nil, selects cases by name.
	Only *regexp.Regexp
	// Quick cuts at every 11th byte in place of every byte, and 30 times in 2,000 events in place of 300 times in
	// 20,000.
	Quick bool
	// Patience bounds every wait for a client. Default: 3 minutes.
	Patience time.Duration
	// Report, if not nil, is called with each result, one call at a time.
	Report func(Result)
}

// Result is the result of a case.
type Result struct {
	Case string `json:"case"`
	// Rules lists the rules of docs/clients.md that the case tests.
	Rules string `json:"rules"`
	// Err describes the failure, nil for none. Skipped is the reason for which the case does not apply.
	Err     error  `json:"-"`
	Problem string `json:"problem,omitempty"`
	Skipped string `json:"skipped,omitempty"`
	// Cuts counts the injected faults, Lost and Doubled the events that the client missed or got twice.
	Cuts    int           `json:"cuts"`
	Lost    int           `json:"lost"`
	Doubled int           `json:"doubled"`
	Took    time.Duration `json:"-"`
}

// Report is the result of all cases.
type Report struct {
	Client  string   `json:"client"`
	Results []Result `json:"results"`
}

// Failed reports whether any case has failed.
func (report *Report) Failed() bool {
	return slices.ContainsFunc(report.Results, func(c Result) bool { return c.Err != nil })
}

// testCase is one case of the suite.
type testCase struct {
	name  string
	rules string
	// needs lists the abilities that a service must have; "reprise" is the kind.
	needs []string
	run   func(ctx context.Context, r *run) error
	// alone means that no other case runs at the same time.
	alone bool
}

// run is a running case.
type run struct {
	opts    *Options
	server  *server
	service *service
	name    string // prefix of the names of streams

	cuts, lost, doubled atomic.Int64
}

// Run runs the suite. The error is a failure of the suite itself or of the service's start.
func Run(ctx context.Context, opts *Options) (*Report, error) {
	if len(opts.Command) == 0 {
		return nil, errors.New("no command starts the service")
	}
	dir, err := os.MkdirTemp("", "check-client-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server, err := startServer(opts.Program, dir)
	if err != nil {
		return nil, err
	}
	defer server.kill()
	report := &Report{}
	for _, alone := range []bool{false, true} {
		if err := report.run(ctx, opts, server, alone); err != nil {
			return report, err
		}
	}
	return report, nil
}

// casesAtOnce is the number of concurrent cases: most of them wait most of the time.
const casesAtOnce = 6

// run runs the cases that run alone, or the others.
func (report *Report) run(ctx context.Context, opts *Options, server *server, alone bool) error {
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		failed   atomic.Bool // a service could not be started: no further one is tried
		firstErr error       // why it could not
	)
	turns := make(chan struct{}, casesAtOnce)
	for _, c := range cases {
		if c.alone != alone || opts.Only != nil && !opts.Only.MatchString(c.name) {
			continue
		}
		turns <- struct{}{}
		run := func() {
			defer func() { <-turns }()
			if ctx.Err() != nil || failed.Load() {
				return
			}
			result, name, err := c.try(ctx, opts, server)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if !failed.Swap(true) {
					firstErr = err
				}
				return
			}
			report.Client = name
			report.Results = append(report.Results, result)
			if opts.Report != nil {
				opts.Report(result)
			}
		}
		if alone {
			run()
			continue
		}
		wg.Go(run)
	}
	wg.Wait()
	return errors.Join(firstErr, context.Cause(ctx))
}

// try runs the case with a service of its own.
func (c *testCase) try(ctx context.Context, opts *Options, server *server) (Result, string, error) {
	service, err := startService(ctx, opts, server)
	if err != nil {
		return Result{}, "", err
	}
	r := &run{opts: opts, server: server, service: service, name: strings.ReplaceAll(c.name, " ", "-")}
	result := Result{Case: c.name, Rules: c.rules}
	for _, need := range c.needs {
		if need != service.hello.Kind && !slices.Contains(service.hello.Can, need) {
			result.Skipped = "the service has no " + need
		}
	}
	begin := time.Now()
	if result.Skipped == "" {
		result.Err = c.run(ctx, r)
	}
	result.Err = errors.Join(result.Err, r.service.close())
	if result.Err != nil {
		result.Problem = result.Err.Error()
	}
	result.Took = time.Since(begin)
	result.Cuts, result.Lost, result.Doubled = int(r.cuts.Load()), int(r.lost.Load()), int(r.doubled.Load())
	return result, service.hello.Name, nil
}

// follow makes the service follow a stream at an address. change, if not nil, modifies the command.
func (r *run) follow(addr, stream string, change func(*Command)) *task {
	return r.service.do(followCommand(addr, r.server.token, stream, change))
}

// followCommand is the command to follow a stream. Its URL and stream and its source say the same.
func followCommand(addr, token, stream string, change func(*Command)) Command {
	c := Command{
		Do: "follow", URL: "http://" + addr, Token: token, Stream: stream, Gap: "yield",
		MinWaitMS: 1, MaxWaitMS: 5, IdleMS: 1500,
	}
	if change != nil {
		change(&c)
	}
	c.Source = c.URL + eventsPath(c.Stream)
	if len(c.Types) > 0 {
		c.Source += "?types=" + strings.Join(c.Types, ",")
	}
	return c
}

// proxy starts a faulty network in front of an address. close counts its faults.
func (r *run) proxy(target string, plan cutproxy.Plan) (p *cutproxy.Proxy, closeIt func(), err error) {
	p, err = cutproxy.Listen(target, &cutproxy.Options{Plan: plan})
	if err != nil {
		return nil, nil, err
	}
	return p, func() {
		r.cuts.Add(int64(p.Faults()))
		p.Close()
	}, nil
}

// exactly waits for the end of a command and compares its events with the expected ones.
func (r *run) exactly(t *task, want []Event) error {
	if err := t.wait(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errs) > 0 {
		return fmt.Errorf("after %d of %d events: %w", len(t.events), len(want), t.errs[0])
	}
	return r.compare(want, t.events)
}

// compare counts lost and repeated events and returns any other difference. An event without a seq, such as a part of
// another one, is no event of the stream: it is a difference, and counts as neither lost nor repeated.
func (r *run) compare(want, got []Event) error {
	seen := map[uint64]int{}
	var errs []error
	last := uint64(0)
	for i, e := range got {
		if e.Seq == 0 {
			errs = append(errs, fmt.Errorf("an event of type %q has no seq: %.80q", e.Type, e.Data))
			continue
		}
		if seen[e.Seq]++; seen[e.Seq] > 1 {
			r.doubled.Add(1)
			errs = append(errs, fmt.Errorf("event %d comes twice", e.Seq))
		} else if e.Seq < last {
			errs = append(errs, fmt.Errorf("event %d comes after %d", e.Seq, last))
		}
		last = max(last, e.Seq)
		if at := slices.IndexFunc(want[min(i, len(want)):], func(w Event) bool { return w.Seq == e.Seq }); at < 0 {
			if !slices.ContainsFunc(want, func(w Event) bool { return w.Seq == e.Seq }) {
				errs = append(errs, fmt.Errorf("event %d, of type %q, is none: %.80q", e.Seq, e.Type, e.Data))
			}
		} else if err := same(want[min(i, len(want))+at], e); err != nil {
			errs = append(errs, err)
		}
	}
	for _, w := range want {
		if seen[w.Seq] == 0 {
			r.lost.Add(1)
			errs = append(errs, fmt.Errorf("event %d is lost", w.Seq))
		}
	}
	if len(errs) > 5 {
		errs = append(errs[:5], fmt.Errorf("and %d more", len(errs)-5))
	}
	return errors.Join(errs...)
}

// same compares an event with the expected one.
func same(want, got Event) error {
	switch {
	case got.Cursor != want.Cursor || got.Type != want.Type:
		return fmt.Errorf("event %d is %s %q, want %s %q", want.Seq, got.Type, got.Cursor, want.Type, want.Cursor)
	case want.Type == "end" && outcomeOf(want) != outcomeOf(got):
		return fmt.Errorf("the end is %.200s, want %.200s", got.JSON, want.JSON)
	case want.Type == "end" || want.Type == "started":
		return nil // pages have another form
	case !bytes.Equal(want.Data, got.Data) || !sameJSON(want.JSON, got.JSON):
		return fmt.Errorf("event %d holds %.80q %.80s, want %.80q %.80s",
			want.Seq, got.Data, got.JSON, want.Data, want.JSON)
	}
	return nil
}

func outcomeOf(e Event) string {
	var end struct{ Outcome string }
	_ = json.Unmarshal(e.JSON, &end) // other events have no outcome
	return end.Outcome
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return bytes.Equal(a, b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
