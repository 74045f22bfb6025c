package clienttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"reprise/client"
	"reprise/internal/freeport"
)

// server is a "reprise serve", on a store that survives it.
type server struct {
	program string
	dir     string
	addr    string
	token   string
	cmd     *exec.Cmd
	// certificate is of the suite's proxies with TLS, which the services trust.
	certificate *certificate
	stderr      tail
}

// startServer starts a server on a free port.
func startServer(program, dir string) (*server, error) {
	addr, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	s := &server{program: program, dir: dir, addr: addr}
	if s.certificate, err = newCertificate(filepath.Join(dir, "certificate.pem")); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		s.kill()
		return nil, err
	}
	s.token = strings.TrimSpace(string(token))
	return s, nil
}

// start starts the server at its previous address.
func (s *server) start() error {
	s.cmd = exec.Command(s.program, "serve", "--listen", s.addr, "--data", s.dir, "--store",
		"sqlite:", "--heartbeat", "300ms",
		"--log-level", "error", "--stop-executions", "--retain-events", "50000")
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	addr := make(chan string, 1)
	go func() {
		defer close(addr)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if got, ok := strings.CutPrefix(lines.Text(), "listening on http://"); ok {
				addr <- got
			}
		}
	}()
	select {
	case got, ok := <-addr:
		if s.addr = got; ok {
			return nil
		}
		err = errors.New("the server does not start")
	case <-time.After(2 * time.Minute):
		err = errors.New("the server does not start within two minutes")
	}
	s.kill()
	return fmt.Errorf("%w: %s", err, s.stderr.String())
}

// kill kills the server with SIGKILL.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// client is one of ours, with which the suite publishes.
func (s *server) client() (*client.Client, error) {
	return client.New(&client.Options{URL: "http://" + s.addr, Token: s.token, MinWait: 20 * time.Millisecond})
}

// publish creates a stream and publishes numbered events to it, from first on: {"n":1}, ... It ends the stream unless
// open is set.
func (s *server) publish(ctx context.Context, stream string, first, count int, open bool) error {
	data := func(i int) []byte { return fmt.Appendf(nil, `{"n":%d}`, first+i) }
	return s.publishEach(ctx, stream, count, open, data)
}

// publishEach publishes what data returns for 0, 1, ... below count. Unless open is set it ends the stream.
func (s *server) publishEach(ctx context.Context, stream string, count int, open bool, data func(i int) []byte) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	if _, err := c.CreateStream(ctx, stream, client.StreamConfig{}); err != nil {
		return err
	}
	p := c.Producer(stream)
	const batch = 500
	for n := 0; n < count; n += batch {
		var events []client.NewEvent
		for i := n; i < min(n+batch, count); i++ {
			events = append(events, client.NewEvent{Type: "note", Data: data(i)})
		}
		if _, err := p.Publish(ctx, events...); err != nil {
			return err
		}
	}
	if open {
		return nil
	}
	_, err = p.End(ctx, "completed", nil)
	return err
}

// events returns all events of a stream, as in its pages.
func (s *server) events(ctx context.Context, stream string) (all []Event, err error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	opts := client.PageOptions{Limit: 1000}
	for {
		page, err := c.PageStream(ctx, stream, &opts)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			all = append(all, eventOf(e))
		}
		if !page.HasMore {
			return all, nil
		}
		opts.After = page.NextCursor
	}
}

// eventOf converts an event of package client to the form of the contract.
func eventOf(e client.Event) Event {
	got := Event{Seq: e.Seq, Cursor: e.Cursor, Type: e.Type}
	if e.IsJSON {
		got.JSON = e.Data
	} else {
		got.Data = e.Data
	}
	return got
}
