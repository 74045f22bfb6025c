package testserver_test

import (
	"testing"

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
