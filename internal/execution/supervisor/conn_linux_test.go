package supervisor

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Args[0] == Name {
		if err := Serve(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// fixtureSocket listens in a directory whose path is longer than the address of a socket may be.
func fixtureSocket(t *testing.T, secret string) (dir string, accepted chan *Conn) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), strings.Repeat("long/", 40), "run")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	accepted = make(chan *Conn, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			if c, err := Accept(raw, dir, secret); err == nil {
				accepted <- c
			}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return dir, accepted
}

func TestSocketDemandsTheSecret(t *testing.T) {
	dir, accepted := fixtureSocket(t, "open sesame")
	if info, err := os.Stat(filepath.Join(dir, socketFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	for _, secret := range []string{"", "open", "open sesame "} {
		if _, err := Dial(t.Context(), dir, secret); !errors.Is(err, ErrRefused) {
			t.Errorf("with %q: %v", secret, err)
		}
	}
	near, err := Dial(t.Context(), dir, "open sesame")
	if err != nil {
		t.Fatal(err)
	}
	far := <-accepted
	defer far.Close()
	long := strings.Repeat("x", 1<<20)
	sent := make(chan error, 1)
	go func() { sent <- near.Send(long) }()
	var got string
	if err := far.Receive(&got); err != nil || got != long || <-sent != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_ = near.Close()
	if err := far.Receive(&got); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// TestCallForAnotherRunIsRefused: a supervisor uses its socket again under another name, and a call that comes late
// must not reach the next run. An older server names no run and is accepted.
func TestCallForAnotherRunIsRefused(t *testing.T) {
	dir, accepted := fixtureSocket(t, "open sesame")
	late := filepath.Join(filepath.Dir(dir), "earlier")
	if err := os.Symlink(dir, late); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), late, "open sesame"); !errors.Is(err, ErrRefused) {
		t.Errorf("for an earlier run: %v", err)
	}
	raw, err := dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	older := NewConn(raw)
	defer older.Close()
	var answer hello
	err = errors.Join(older.Send(hello{Version: 1, Secret: "open sesame"}), older.Receive(&answer))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Error != "" {
		t.Errorf("an older server is refused: %s", answer.Error)
	}
	_ = (<-accepted).Close()
}

// TestDialEndsWithItsContext: the kernel has connected, and the supervisor says nothing.
func TestDialEndsWithItsContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dialed := make(chan error, 1)
	go func() {
		_, err := Dial(ctx, dir, "open sesame")
		dialed <- err
	}()
	raw, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var asked hello
	if err := NewConn(raw).Receive(&asked); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-dialed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestListenReplacesTheSocketOfADeadSupervisor, which had no command yet.
func TestListenReplacesTheSocketOfADeadSupervisor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err := Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close() // the file stays
	}
}

// TestLockIsExclusive: one at a time has it, and nobody has that of a directory that was removed.
func TestLockIsExclusive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	first, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); !errors.Is(err, ErrHeld) {
		t.Errorf("a second time: %v", err)
	}
	_ = first.Close()
	again, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
}

func TestSecretIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	first, err := LoadSecret(dir)
	again, err2 := LoadSecret(dir)
	if err != nil || err2 != nil || first != again || len(first) < 20 {
		t.Errorf("%q, %v; %q, %v", first, err, again, err2)
	}
	if info, err := os.Stat(filepath.Join(dir, SecretFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
}
