package resumetest_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise/internal/freeport"
	"reprise/mcp/mcphttp/resumetest"
)

var table = flag.String("table", "", "a file to which TestSideBySide writes its table")

func TestMain(m *testing.M) {
	if os.Getenv(envPeer) != "" {
		serveChild()
	}
	goleak.VerifyTestMain(m)
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// child is a peer in a process of its own.
type child struct {
	testing.TB
	env        []string
	addr       string
	cmd        *exec.Cmd
	closeStdin func() error
}

// startPeer starts a peer over a file, or over a memory that two replicas share, and makes it a Target.
func startPeer(tb testing.TB, p peer, file bool) resumetest.Target {
	tb.Helper()
	c := &child{TB: tb}
	var replica string
	err := errors.New("not started yet")
	for tries := 0; err != nil; tries++ { // somebody else may take an address before the child does
		c.addr, replica = freeAddr(tb), freeAddr(tb)
		c.env = append(os.Environ(), envPeer+"="+p.name, envAddr+"="+c.addr, envReplica+"="+replica)
		if file {
			c.env = append(c.env, envFile+"="+filepath.Join(tb.TempDir(), "events.db"))
		}
		if err = c.start(); err != nil && tries == 4 {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(c.kill)
	target := resumetest.Target{
		URL:      "http://" + c.addr + "/mcp",
		Kept:     p.kept,
		Patience: 25 * time.Second, // less than it takes until a client that reads nothing is let go
		Header:   http.Header{"Authorization": {"me"}},
		Client:   &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	if p.name == "mcphttp" {
		target.Other = http.Header{"Authorization": {"somebody else"}}
	}
	if file {
		target.Restart = c.restart
	} else {
		target.Replica = "http://" + replica + "/mcp"
	}
	if !p.ownStore {
		target.Fault = c.fault
	}
	return target
}

func freeAddr(tb testing.TB) string {
	address, err := freeport.Address()
	check(tb, err)
	return address
}

func (c *child) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	c.cmd = exec.Command(exe, "-test.run=^$")
	c.cmd.Env = c.env
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return err
	}
	c.closeStdin = stdin.Close
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	if !bufio.NewScanner(stdout).Scan() {
		return fmt.Errorf("the server has not started: %w", c.cmd.Wait())
	}
	return nil
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.closeStdin()
	_ = c.cmd.Wait()
}

func (c *child) restart(context.Context) error {
	c.kill()
	return c.start()
}

func (c *child) fault(ctx context.Context, fails bool) error {
	to := map[bool]string{true: "on", false: "off"}[fails]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addr+"/fault/"+to, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// TestHandlerPassesEveryCase: mcphttp passes every case, over a file and with two replicas.
func TestHandlerPassesEveryCase(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	for name, file := range map[string]bool{"file": true, "replicas": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is waited for
			resumetest.Run(t, startPeer(t, peers[0], file))
		})
	}
}

// TestSideBySide checks all peers and writes a table, where one is asked for.
func TestSideBySide(t *testing.T) {
	if *table == "" {
		t.Skip("no -table is asked for")
	}
	var columns []resumetest.Column
	for _, p := range peers {
		seen := func(r resumetest.Result) {
			if r.Outcome == resumetest.Failed {
				t.Logf("%s: %s at %s: %s", p.name, r.Case, r.Version, r.Detail)
			}
		}
		var results []resumetest.Result
		t.Run(p.name, func(t *testing.T) {
			results = resumetest.Check(t.Context(), startPeer(t, p, true), seen)
			for i, r := range resumetest.Check(t.Context(), startPeer(t, p, false), seen) {
				if results[i].Outcome == resumetest.NotRun ||
					results[i].Outcome == resumetest.Passed && r.Outcome == resumetest.Failed {
					results[i] = r
				}
			}
		})
		columns = append(columns, resumetest.Column{Name: p.name, Results: results})
	}
	f, err := os.Create(*table)
	check(t, err)
	check(t, resumetest.WriteTable(f, columns))
	check(t, f.Close())
}
