package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise/client"
	"reprise/internal/testserver"
)

// TestDrainUnderReaders: a server that drains lets twenty readers of three commands have all output and the end, those
// too that are behind when the last command ends, takes nothing new meanwhile, and has stopped afterwards.
func TestDrainUnderReaders(t *testing.T) {
	t.Parallel()
	const readers, commands, half = 20, 3, 6000
	dir := testserver.TempDir(t)
	v := newVictim(t, dir)
	ctx, gate := t.Context(), filepath.Join(dir, "gate")
	line := strings.Repeat("x", 999) // so that what the sockets hold is less than what comes
	for i := range commands {
		script := fmt.Sprintf("n() { yes %s | head -n %d; }; n; until [ -e %s ]; do sleep 0.02; done; n",
			line, half, gate)
		_, err := v.client.Start(ctx, client.StartRequest{ID: fmt.Sprint("job", i), Command: script})
		check(t, err)
	}
	slow := behind(t, v.addr, dir)
	ended := make(chan struct{})
	begun := make(chan struct{}, readers)
	var fast, late sync.WaitGroup
	for i := range readers {
		c, wait, group := v.client, (chan struct{})(nil), &fast
		if i%7 == 0 {
			c, wait, group = slow, ended, &late
		}
		group.Go(func() {
			n, err := readAll(ctx, c, fmt.Sprint("job", i%commands), begun, wait)
			if want := 2 * half * (len(line) + 1); err != nil || n != want {
				t.Errorf("reader %d has %d bytes: %v", i, n, err)
			}
		})
	}
	for range readers {
		<-begun
	}
	program, err := os.Executable()
	check(t, err)
	drain := exec.Command(program)
	drain.Args = []string{
		"reprise", "drain", "--quiet", "--url", "http://" + v.addr, "--token-file", dir + "/data/token",
	}
	check(t, drain.Start())
	refused := func() bool {
		res, err := http.Get("http://" + v.addr + "/readyz")
		check(t, err)
		return res.Body.Close() == nil && res.StatusCode == http.StatusServiceUnavailable
	}
	if !eventually(refused) {
		t.Error("the server is ready all the while")
	}
	check(t, os.WriteFile(gate, nil, 0o600))
	fast.Wait() // then all commands have ended
	close(ended)
	late.Wait()
	check(t, drain.Wait())
	select {
	case <-v.done:
	case <-time.After(patience):
		t.Error("the server has not stopped")
	}
}

// readAll follows a run to its end and counts its output. After the first events it says so, and waits if it is to.
func readAll(
	ctx context.Context, c *client.Client, id string, begun chan<- struct{}, wait <-chan struct{},
) (n int, err error) {
	said := false
	for e, err := range c.Follow(ctx, id, &client.FollowOptions{GiveUp: time.Second}) {
		if err != nil {
			return n, err
		}
		if e.Type == "stdout" {
			n += len(e.Data)
		}
		if !said && n > 0 {
			said = true
			begun <- struct{}{}
			if wait != nil {
				<-wait
			}
		}
	}
	return n, nil
}

// behind returns a client whose connections take little that was not read.
func behind(t *testing.T, address, dir string) *client.Client {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(dir, "data", "token"))
	check(t, err)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		return conn, err
	}
	c, err := client.New(&client.Options{
		URL: "http://" + address, Token: strings.TrimSpace(string(token)), Compression: client.CompressNever,
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}},
	})
	check(t, err)
	return c
}
