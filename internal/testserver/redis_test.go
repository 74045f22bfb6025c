package testserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise/internal/testserver"
)

// What was written before a kill is there after it, and a server that is paused goes on where it was.
func TestRedisKeepsDataOverKill(t *testing.T) {
	for name, opts := range map[string]*testserver.RedisOptions{
		"plain":    nil,
		"password": {Password: "secret"},
		"tls":      {TLS: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := testserver.Redis(t, opts)
			command(t, s, "OK", "SET", "key", "value")
			must(t, s.Kill())
			must(t, s.Start())
			command(t, s, "value", "GET", "key")
			must(t, s.Pause())
			must(t, s.Resume())
			command(t, s, "value", "GET", "key")
		})
	}
}

// TestRedisKillEndsRewrite: the process that rewrites the append-only file ends with the server.
func TestRedisKillEndsRewrite(t *testing.T) {
	s := testserver.Redis(t, nil)
	command(t, s, "OK", "SET", "key", "value")
	command(t, s, "OK", "CONFIG", "SET", "rdb-key-save-delay", "600000000") // in us
	_, err := s.Command("BGREWRITEAOF")
	must(t, err)
	info, err := s.Command("INFO", "persistence")
	must(t, err)
	if !strings.Contains(info, "aof_rewrite_in_progress:1") {
		t.Fatalf("no rewrite is under way: %s", info)
	}
	var rewriter string
	for deadline := time.Now().Add(time.Minute); rewriter == ""; time.Sleep(time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(s.Dir(), "temp-rewriteaof-*.aof"))
		must(t, err)
		if len(files) == 1 {
			rewriter = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(files[0]), "temp-rewriteaof-"), ".aof")
		} else if time.Now().After(deadline) {
			t.Fatalf("the files of the rewrite: %q", files)
		}
	}
	must(t, s.Kill())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		// That of a process which has ended is empty, or there is none.
		running, err := os.ReadFile("/proc/" + rewriter + "/cmdline")
		if err != nil || len(running) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s goes on: %q", rewriter, running)
		}
	}
}

func command(t *testing.T, s *testserver.RedisServer, want string, args ...string) {
	t.Helper()
	got, err := s.Command(args...)
	if err != nil || got != want {
		t.Errorf("%v: %q, %v, want %q", args, got, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each node of a cluster has slots, and all know of all.
func TestRedisCluster(t *testing.T) {
	c := testserver.Cluster(t, 3)
	for _, node := range c.Nodes {
		if out, err := node.Command("-c", "SET", "key:"+node.Addr(), "value"); err != nil || out != "OK" {
			t.Errorf("%s: %q, %v", node.Addr(), out, err)
		}
	}
}
