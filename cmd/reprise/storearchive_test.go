package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/twmb/franz-go/pkg/kfake"

	"reprise"
	"reprise/store/sqlitestore"
)

// runReprise runs the program and returns what it says.
func runReprise(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Args[0] = "reprise"
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret", "XDG_STATE_HOME="+cmd.Dir)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	return string(out), err
}

// TestArchivesOverTheNetwork archives to a bucket and reads it back, and to a topic.
func TestArchivesOverTheNetwork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	store, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	log, err := reprise.Open(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "default", Name: "builds/1"}, reprise.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := s.Append(t.Context(), reprise.Event{Data: []byte("a line")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.End(t.Context(), "completed", reprise.Event{}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	backend := s3mem.New()
	if err := backend.CreateBucket("events"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	bucket := "s3://events/old?region=us-east-1&endpoint=" + server.URL
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	topic := "kafka://" + cluster.ListenAddrs()[0] + "/events"

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"store", "archive", "sqlite:" + path, topic}, "archived 1 streams with 101 events"},
		{[]string{"store", "archive", "sqlite:" + path, bucket, "--remove"}, "archived 1 streams with 101 events"},
		{[]string{"store", "check", bucket}, "nothing is wrong: 1 streams, 101 events"},
		{[]string{"store", "stats", bucket}, "tenant default  1 streams, 101 events"},
		{[]string{"store", "copy", bucket, "sqlite:" + path}, "copied 1 streams with 101 events"},
		{[]string{"store", "check", "sqlite:" + path}, "nothing is wrong: 1 streams, 101 events"},
	} {
		out, err := runReprise(t, c.args...)
		if err != nil || !strings.HasPrefix(out, c.want) {
			t.Fatalf("%q: %v: %s", c.args, err, out)
		}
	}
	if _, err := runReprise(t, "store", "check", topic); err == nil {
		t.Fatal("a topic is read")
	}
}
