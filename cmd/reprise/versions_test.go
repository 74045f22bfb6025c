package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reprise/client"
	"reprise/internal/testserver"
)

// previousFile holds the commit of the version before this one, whose stores and replicas this one gets along with.
const previousFile = "testdata/previous-version"

// buildPrevious builds the program of the version before this one, unless an earlier test has, and returns its path.
func buildPrevious(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(previousFile)
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(text))
	if err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the previous version, commit %s, is not in this clone: %v", commit, err)
		}
		t.Skipf("the previous version, commit %s, is not in this clone", commit)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(cache, "reprise", "previous", commit)
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := testserver.TempDir(t)
	archive := exec.Command(
		"sh",
		"-c",
		`git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2"`,
		"sh",
		commit,
		dir,
	)
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program+".new", "./cmd/reprise")
	build.Dir = dir
	for _, cmd := range []*exec.Cmd{archive, build} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	return program
}

// version is a program of some version, with what all servers of a test share.
type version struct {
	path  string // "" for this version
	dir   string
	store string
}

// serve starts a server. Each has its own data directory, unless data names one; all have the same secrets.
func (v version) serve(t *testing.T, data string) (*daemon, error) {
	t.Helper()
	if err := makeSecrets(filepath.Join(v.dir, "secrets")); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(v.dir, data), "--secrets",
		filepath.Join(v.dir, "secrets"),
		"--store", v.store, "--log-level", "warn",
	}
	log := filepath.Join(v.dir, data+".log")
	if v.path == "" {
		return startDaemon(os.Environ(), v.dir, log, args[1:]...)
	}
	return startProgram(&daemonSpec{
		path: v.path, args: append([]string{"reprise"}, args...), env: os.Environ(), dir: v.dir, log: log,
	})
}

// mustServe is serve, with a client of the server.
func (v version) mustServe(t *testing.T, data string) (*daemon, *client.Client) {
	t.Helper()
	d, err := v.serve(t, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.kill() })
	token, err := os.ReadFile(filepath.Join(v.dir, "secrets", "token"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(
		&client.Options{URL: "http://" + d.addr, Token: strings.TrimSpace(string(token)), GiveUp: patience},
	)
	if err != nil {
		t.Fatal(err)
	}
	return d, c
}

func stop(t *testing.T, d *daemon) {
	t.Helper()
	if err := d.signal(unix.SIGTERM); err != nil || d.err != nil {
		t.Fatalf("SIGTERM: %v, %v", err, d.err)
	}
}

// publishLines publishes lines to a stream, each by itself.
func publishLines(t *testing.T, c *client.Client, stream string, lines ...string) {
	t.Helper()
	if _, err := c.CreateStream(t.Context(), stream, client.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	producer := c.Producer(stream)
	for _, line := range lines {
		if _, err := producer.Publish(t.Context(), client.NewEvent{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
}

// linesAfter reads a stream up to the event last, and returns the lines and the cursor of each.
func linesAfter(t *testing.T, c *client.Client, stream, cursor string, last uint64) (lines, cursors []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for event, err := range c.FollowStream(ctx, stream, &client.FollowOptions{After: cursor, OnGap: client.GapFail}) {
		if err != nil {
			t.Fatalf("%s after %q: %v", stream, cursor, err)
		}
		lines, cursors = append(lines, string(event.Data)), append(cursors, event.Cursor)
		if event.Seq == last {
			break
		}
	}
	return lines, cursors
}

func wantLines(t *testing.T, what string, got []string, want string) {
	t.Helper()
	if text := strings.Join(got, " "); text != want {
		t.Errorf("%s: %q, want %q", what, text, want)
	}
}

// TestStoreOfThePreviousVersionOpens: this version goes on with the file of the version before, whose cursors stay
// good. The version before goes on with the file of this one, or refuses it and leaves it as it is.
func TestStoreOfThePreviousVersionOpens(t *testing.T) {
	previous := version{path: buildPrevious(t), dir: testserver.TempDir(t), store: "sqlite:"}
	current := version{dir: previous.dir, store: previous.store}

	d, c := previous.mustServe(t, "data")
	publishLines(t, c, "notes", "1", "2", "3")
	if _, err := c.Start(t.Context(), client.StartRequest{
		ID:      "job",
		Command: "echo of the previous version",
	}); err != nil {
		t.Fatal(err)
	}
	for _, err := range c.Follow(t.Context(), "job", nil) {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, cursors := linesAfter(t, c, "notes", "", 3)
	stop(t, d)

	d, c = current.mustServe(t, "data")
	publishLines(t, c, "notes", "4", "5")
	lines, _ := linesAfter(t, c, "notes", cursors[0], 5)
	wantLines(t, "after a cursor of the previous version", lines, "2 3 4 5")
	output := ""
	for event, err := range c.Follow(t.Context(), "job", nil) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == "stdout" {
			output += string(event.Data)
		}
	}
	wantLines(t, "the output of the job", []string{output}, "of the previous version\n")
	stop(t, d)

	if d, err := previous.serve(t, "data"); err == nil {
		t.Log("the previous version opens the file of this one")
		stop(t, d)
	} else if log, _ := os.ReadFile(filepath.Join(previous.dir, "data.log")); !strings.Contains(string(log), "newer") {
		t.Errorf("the previous version ends without the reason: %v", err)
	}
	_, c = current.mustServe(t, "data")
	lines, _ = linesAfter(t, c, "notes", "", 5)
	wantLines(t, "after the previous version", lines, "1 2 3 4 5")
}

// TestVersionsShareAStore: during an upgrade replicas of both versions publish to the same stream, and a cursor of the
// one is good at the other.
func TestVersionsShareAStore(t *testing.T) {
	t.Parallel()
	path := buildPrevious(t)
	for name, url := range map[string]func() string{
		"redis":    func() string { return testserver.Redis(t, nil).URL() },
		"postgres": func() string { return testserver.Postgres(t, nil).URL() },
		"nats":     func() string { return testserver.NATS(t, nil).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			previous := version{path: path, dir: testserver.TempDir(t), store: url()}
			_, before := previous.mustServe(t, "previous")
			publishLines(t, before, "notes", "1", "2")
			_, now := version{dir: previous.dir, store: previous.store}.mustServe(t, "current")
			publishLines(t, now, "notes", "3", "4")
			publishLines(t, before, "notes", "5", "6")
			publishLines(t, now, "notes", "7")
			for what, c := range map[string]*client.Client{"previous": before, "current": now} {
				lines, cursors := linesAfter(t, c, "notes", "", 7)
				wantLines(t, what, lines, "1 2 3 4 5 6 7")
				for other, c := range map[string]*client.Client{"previous": before, "current": now} {
					lines, _ = linesAfter(t, c, "notes", cursors[3], 7)
					wantLines(t, other+" after a cursor of "+what, lines, "5 6 7")
				}
			}
		})
	}
}
