package execution_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/storeurl"
	"reprise/internal/testserver"
	"reprise/replica"
)

// envReplica makes the test binary a replica on the store that it names, until it is killed.
const envReplica = "REPRISE_TEST_REPLICA"

// farTTL is that of replicas on real servers, which share a busy machine.
var farTTL = replica.Options{Beat: 500 * time.Millisecond, TTL: 5 * time.Second}

func replicaUntilKilled(url string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	store, err := storeurl.Open(ctx, url, nil)
	fail(err)
	log, err := reprise.Open(ctx, store, nil)
	fail(err)
	member, err := replica.Join(ctx, log, &farTTL)
	fail(err)
	h, err := execution.Open(ctx, log, &execution.Options{Replica: member, Hooks: &execution.Hooks{
		Fenced: func(reprise.Tenant) { fmt.Println("fenced") },
	}})
	fail(err)
	_, _, err = h.Start(ctx, tenant, execution.Request{ID: "going", Command: treeCommand, StdinOpen: true})
	fail(err)
	select {}
}

// startReplica runs a replica in a process of its own. What it prints comes over lines.
func startReplica(t *testing.T, url string) (process *os.Process, lines <-chan string) {
	t.Helper()
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), envReplica+"="+url)
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			said <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-done
		_ = server.Wait()
	})
	return server.Process, said
}

// servers start the servers of each store that can be shared.
var servers = map[string]func(t *testing.T) (url string){
	"redis":    func(t *testing.T) string { return testserver.Redis(t, nil).URL() },
	"postgres": func(t *testing.T) string { return testserver.Postgres(t, nil).URL() },
	"nats":     func(t *testing.T) string { return testserver.NATS(t, nil).URL() },
}

// TestReplicasOnServers has a replica in a process of its own, on each store that can be shared: another one
// controls what it runs; then it is killed, or stopped, declared dead and continued.
func TestReplicasOnServers(t *testing.T) {
	t.Parallel()
	for name, serve := range servers {
		t.Run("store="+name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			url := serve(t)
			t.Run("killed", func(t *testing.T) { replicaOnServer(t, url, syscall.SIGKILL) })
			t.Run("stopped", func(t *testing.T) { replicaOnServer(t, url, syscall.SIGSTOP) })
		})
	}
}

func replicaOnServer(t *testing.T, url string, blow syscall.Signal) {
	store, err := storeurl.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	nd := &node{store: newCuttable(store.(sharable))}
	nd.open(t, &farTTL, execution.Options{})
	process, lines := startReplica(t, url)
	var x execution.Execution
	until(t, "the other replica starts it", func() bool {
		if len(lines) > 0 {
			t.Fatal(<-lines)
		}
		x, err = nd.Show(within(t), tenant, "going")
		return err == nil && !x.Started.IsZero()
	})
	pids := children(await(t, nd.Host, x.ID, "up"))
	if len(pids) != 2 {
		t.Fatalf("processes %v", pids)
	}
	began := time.Now()
	state, err := nd.WriteStdin(within(t), tenant, x.ID,
		execution.StdinWrite{Offset: 0, Data: strings.NewReader("hello")})
	if err != nil || state.Offset != 5 {
		t.Errorf("stdin: %+v, %v", state, err)
	}
	t.Logf("stdin from another replica took %s", time.Since(began).Round(100*time.Microsecond))
	if err := nd.Signal(within(t), tenant, x.ID, "CONT"); err != nil {
		t.Error(err)
	}
	began = time.Now()
	if err := process.Signal(blow); err != nil {
		t.Fatal(err)
	}
	if blow == syscall.SIGSTOP {
		for _, other := range nd.member.Members() {
			if !other.Self {
				nd.buries(t, other.Name)
			}
		}
	}
	wantOutcome(t, finish(t, nd.Host, x.ID), execution.Lost, -1, "")
	t.Logf("lost after %s, at a TTL of %s", time.Since(began).Round(time.Millisecond), farTTL.TTL)
	if got := output(t, nd.Host, x.ID, execution.Stdout); !strings.Contains(string(got), "up\n") {
		t.Errorf("output %q", got)
	}
	if blow == syscall.SIGSTOP {
		if err := process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range pids {
		until(t, "its processes are gone", func() bool { return !alive(pid) })
	}
	if blow == syscall.SIGSTOP {
		select {
		case line := <-lines:
			if line != "fenced" {
				t.Error(line)
			}
		case <-time.After(patience):
			t.Error("it does not know that it was taken for dead")
		}
		follow(t, nd.Host, x.ID)
	}
	if err := nd.Remove(within(t), tenant, x.ID); err != nil && !errors.Is(err, reprise.ErrNotFound) {
		t.Error(err)
	}
}

// server is one that a test can restart.
type server interface {
	URL() string
	Kill() error
	Start() error
}

// TestStoreIsRestarted kills the store, one of which may lose what it has acknowledged, and in one case has, so that
// all streams go on under another epoch. Commands go on too, no replica is taken for dead, and an end that lacks
// output says so.
func TestStoreIsRestarted(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(t *testing.T) server{
		"redis":    func(t *testing.T) server { return testserver.Redis(t, nil) },
		"postgres": func(t *testing.T) server { return testserver.Postgres(t, nil) },
		"nats":     func(t *testing.T) server { return testserver.NATS(t, nil) },
	} {
		t.Run("store="+name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			storeIsRestarted(t, serve(t), nil)
		})
	}
	for name, loses := range map[string]bool{"nothing": false, "something": true} {
		t.Run("store=redis/lost="+name, func(t *testing.T) {
			t.Parallel()
			server := testserver.Redis(t, &testserver.RedisOptions{Config: []string{"--appendfsync", "everysec"}})
			if !loses {
				storeIsRestarted(t, server, nil)
				return
			}
			storeIsRestarted(t, server, server)
		})
	}
}

// storeIsRestarted restarts a server under two replicas; loses, if not nil, is the same one and goes back to an older
// state.
func storeIsRestarted(t *testing.T, server server, loses *testserver.RedisServer) {
	work := t.TempDir()
	var list []*node
	for range 2 {
		store, err := storeurl.Open(t.Context(), server.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		nd := &node{store: newCuttable(store.(sharable))}
		nd.open(t, &farTTL, execution.Options{Dir: work})
		list = append(list, nd)
	}
	const lines = 300 // of which the first 50 are in the older state
	for i, nd := range list {
		start(t, nd.Host, execution.Request{
			ID: strconv.Itoa(i), StdinOpen: true,
			Command: fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; sleep 0.01
				[ $i != 50 ] || until [ -e go ]; do sleep 0.01; done; done; read x; echo "$x"`, lines),
		})
		await(t, nd.Host, strconv.Itoa(i), "50\n")
	}
	backup := filepath.Join(t.TempDir(), "data")
	if loses != nil {
		if err := os.CopyFS(backup, os.DirFS(loses.Dir())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, nd := range list {
		await(t, nd.Host, strconv.Itoa(i), "100\n")
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if loses != nil {
		if err := errors.Join(os.RemoveAll(loses.Dir()), os.CopyFS(loses.Dir(), os.DirFS(backup))); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, i+1)
	}
	want.WriteString("done\n")
	for i := range list {
		id, other := strconv.Itoa(i), list[1-i].Host
		retry(t, func(ctx context.Context) error {
			_, err := other.WriteStdin(ctx, tenant, id, execution.StdinWrite{Data: strings.NewReader("done\n")})
			return err
		})
		var x execution.Execution
		until(t, "it ends", func() bool {
			var err error
			x, err = other.Show(within(t), tenant, id)
			return err == nil && x.Status == execution.StatusEnded
		})
		wantOutcome(t, x, execution.Exited, 0, "")
		got := output(t, other, id, execution.Stdout)
		if whole := string(got) == want.String(); whole != (loses == nil) || whole == x.OutputTruncated ||
			int64(len(got)) != x.Bytes.Stdout {
			t.Errorf("%d of %d bytes of output are kept, said are %d, truncated %t",
				len(got), want.Len(), x.Bytes.Stdout, x.OutputTruncated)
		}
		t.Logf("%d of %d bytes, truncated %t", len(got), want.Len(), x.OutputTruncated)
		if list[i].fenced.Load()+list[i].takenOver.Load() != 0 {
			t.Error("a replica was taken for dead")
		}
	}
}
