// Command goservice puts package client, or with -sse package sseclient, behind the service contract of clienttest.
// With -fault it does something wrong, which the suite must find.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"reprise/client"
	"reprise/internal/clienttest"
	"reprise/internal/problem"
	"reprise/sse/sseclient"
)

func main() {
	sse := flag.Bool("sse", false, "serve sseclient in place of client")
	fault := flag.String("fault", "", "what to do wrong: lose, double, swap, garble, leak, impatient, patient")
	flag.Parse()
	s := &service{out: json.NewEncoder(os.Stdout), stops: map[string]context.CancelFunc{}, fault: *fault}
	hello := clienttest.Hello{
		Name: "Go, client", Kind: clienttest.KindReprise,
		Can: []string{"types", "gap", "tail", "run", "publish", "tls"},
	}
	verbs := map[string]func(context.Context, clienttest.Command) error{
		"follow": s.follow, "run": s.run, "publish": s.publish,
	}
	if *sse {
		hello = clienttest.Hello{Name: "Go, sseclient", Kind: clienttest.KindSSE, Can: []string{"tls"}}
		verbs = map[string]func(context.Context, clienttest.Command) error{"follow": s.read}
	}
	s.say(clienttest.Message{Hello: &hello})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	var tasks sync.WaitGroup
	for lines.Scan() {
		var c clienttest.Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if c.Do == "stop" {
			if s.fault == "leak" {
				s.say(clienttest.Message{ID: c.ID, Done: true})
				continue
			}
			s.stop(c.ID)
			continue
		}
		ctx := s.begin(c.ID)
		tasks.Go(func() {
			if err := verbs[c.Do](ctx, c); err != nil && ctx.Err() == nil {
				s.say(clienttest.Message{ID: c.ID, Error: failure(err)})
			}
			s.say(clienttest.Message{ID: c.ID, Done: true})
			s.stop(c.ID)
		})
	}
	if err := lines.Err(); err != nil { // a line that is too long
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if s.fault == "leak" {
		os.Exit(0)
	}
	s.stopAll()
	tasks.Wait()
}

// service is what the commands share.
type service struct {
	mu    sync.Mutex
	out   *json.Encoder
	stops map[string]context.CancelFunc
	fault string
	late  clienttest.Message // of the fault swap
}

func (s *service) say(m clienttest.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(m); err != nil {
		os.Exit(1) // nobody listens
	}
}

func (s *service) begin(id string) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops[id] = cancel
	return ctx
}

func (s *service) stop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.stops[id]; cancel != nil {
		cancel()
		delete(s.stops, id)
	}
}

func (s *service) stopAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.stops {
		cancel()
	}
}

func failure(err error) *clienttest.Failure {
	p, _ := problem.As(err)
	return &clienttest.Failure{Code: string(p.Code), Text: err.Error()}
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// transport returns a client for a URL. Over TLS it keeps connections, which HTTP/2 shares between requests.
func transport(url string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: strings.HasPrefix(url, "http:")}}
}

// server is a client of the server that a command names.
func server(c clienttest.Command) (*client.Client, error) {
	return client.New(&client.Options{
		URL: c.URL, Token: c.Token, HTTPClient: transport(c.URL),
		MinWait: milliseconds(c.MinWaitMS), MaxWait: milliseconds(c.MaxWaitMS),
	})
}

func (s *service) options(c clienttest.Command) *client.FollowOptions {
	opts := &client.FollowOptions{After: c.After, Types: c.Types, IdleTimeout: milliseconds(c.IdleMS)}
	switch s.fault {
	case "impatient":
		opts.GiveUp = -1
	case "patient":
		opts.IdleTimeout = time.Hour
	}
	if c.Gap == "fail" {
		opts.OnGap = client.GapFail
	}
	return opts
}

// follow follows a stream.
func (s *service) follow(ctx context.Context, c clienttest.Command) error {
	made, err := server(c)
	if err != nil {
		return err
	}
	for e, err := range made.FollowStream(ctx, c.Stream, s.options(c)) {
		if err != nil {
			return err
		}
		s.give(c.ID, e)
	}
	return nil
}

// run starts an execution and follows it.
func (s *service) run(ctx context.Context, c clienttest.Command) error {
	made, err := server(c)
	if err != nil {
		return err
	}
	opts := s.options(c)
	opts.Detach = c.Detach
	for e, err := range made.Run(ctx, client.StartRequest{ID: c.Execution, Argv: c.Argv}, opts) {
		if err != nil {
			return err
		}
		s.give(c.ID, e)
	}
	return nil
}

func (s *service) give(id string, e client.Event) {
	if e.Gap != nil {
		s.say(clienttest.Message{ID: id, Gap: &clienttest.Gap{
			Code: e.Gap.Code, Missed: e.Gap.Missed, TakenBack: e.Gap.TakenBack,
		}})
		return
	}
	got := clienttest.Event{Seq: e.Seq, Cursor: e.Cursor, Type: e.Type, Data: e.Data}
	if e.IsJSON {
		got.Data, got.JSON = nil, e.Data
	}
	s.spoil(id, &got)
}

// spoil tells an event, or does with it what the fault says.
func (s *service) spoil(id string, e *clienttest.Event) {
	m := clienttest.Message{ID: id, Event: e}
	switch fifth := e.Seq%5 == 0; {
	case s.fault == "lose" && fifth:
		return
	case s.fault == "double" && fifth:
		s.say(m)
	case s.fault == "garble" && e.JSON == nil:
		e.Data = []byte(strings.ToValidUTF8(string(e.Data), "?"))
	case s.fault == "swap" && fifth:
		s.late = m
		return
	case s.fault == "swap" && s.late.ID == id:
		defer s.say(s.late)
	}
	s.say(m)
}

// publish publishes numbered events, one after the other or by several tasks of one producer, in turns.
func (s *service) publish(ctx context.Context, c clienttest.Command) error {
	made, err := server(c)
	if err != nil {
		return err
	}
	p := made.Producer(c.Stream)
	tasks := max(c.AtOnce, 1)
	errs := make(chan error, tasks)
	for task := range tasks {
		go func() {
			var err error
			for n := task + 1; n <= c.Count && err == nil; n += tasks {
				_, err = p.Publish(ctx, client.NewEvent{Type: "note", Data: fmt.Appendf(nil, `{"n":%d}`, n)})
			}
			errs <- err
		}()
	}
	var all error
	for range tasks {
		all = errors.Join(all, <-errs)
	}
	return all
}

// read reads a source with sseclient, which knows nothing of an end but the status 204.
func (s *service) read(ctx context.Context, c clienttest.Command) error {
	source, err := sseclient.New(c.Source, &sseclient.Options{
		Header: http.Header{"Authorization": {"Bearer " + c.Token}}, LastEventID: c.After,
		HTTPClient: transport(c.Source),
		MinWait:    milliseconds(c.MinWaitMS), MaxWait: milliseconds(c.MaxWaitMS), IdleTimeout: milliseconds(c.IdleMS),
	})
	if err != nil {
		return err
	}
	for e, err := range source.Events(ctx) {
		if status, ok := errors.AsType[*sseclient.StatusError](err); ok {
			return fmt.Errorf("%w: %s", err, status.Body)
		}
		if err != nil {
			return err
		}
		s.say(clienttest.Message{ID: c.ID, Event: &clienttest.Event{Cursor: e.LastEventID, Type: e.Type, Data: e.Data}})
	}
	return nil
}
