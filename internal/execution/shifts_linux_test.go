package execution

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reprise"
	"reprise/internal/execution/supervisor"
)

// TestOutputOfAnEarlierServerIsAcknowledged: a server that takes up a run acknowledges what is in the stream already,
// which the earlier server may not have done before it died. On a full disk the supervisor waits for that.
func TestOutputOfAnEarlierServerIsAcknowledged(t *testing.T) {
	r := newRun(&Host{ctx: t.Context()}, reprise.StreamKey{}, Request{}, nil)
	m := &supervisor.Remote{Dir: filepath.Join(t.TempDir(), "run"), Secret: "secret"}
	if err := supervisor.Create(m.Dir); err != nil {
		t.Fatal(err)
	}
	listener, err := supervisor.Listen(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	calls := make(chan map[string]any, 2)
	go func() {
		defer close(calls)
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		conn, err := supervisor.Accept(raw, m.Dir, m.Secret)
		if err != nil {
			return
		}
		defer conn.Close()
		for range 2 {
			var call map[string]any
			if conn.Receive(&call) != nil {
				return
			}
			calls <- call
			_ = conn.Send(supervisor.News{Progress: supervisor.Progress{Tail: 5}})
		}
	}()
	l, err := m.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.remote, r.reader = m, supervisor.NewReader(m.Dir, 6)
	over := make(chan error)
	go func() {
		_, _, err := r.followLink(l)
		over <- err
	}()
	if c := <-calls; c["op"] != "follow" {
		t.Errorf("%v", c)
	}
	if c := <-calls; c["op"] != "ack" || c["ack"] != 5.0 {
		t.Errorf("%v", c)
	}
	l.Close()
	<-over
}

// TestShiftsOnFullDisk: they are saved without space, again and again, and the brief keeps what it holds. Of two places
// the later one counts.
func TestShiftsOnFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("needs to mount a small file system: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(disk, "run")
	if err := supervisor.Create(dir); err != nil {
		t.Fatal(err)
	}
	b := brief{Run: "run", Principal: "somebody", Attempt: "first"}
	if err := b.save(dir); err != nil {
		t.Fatal(err)
	}
	var s shifts
	saved := func(tail uint64) {
		t.Helper()
		s.move(tail, tail)
		if err := s.save(dir); err != nil {
			t.Fatal(err)
		}
		kept := loadBrief(dir)
		if got := loadShifts(dir, &kept); !reflect.DeepEqual(got, s) || kept.Principal != b.Principal {
			t.Errorf("at %d: %+v in place of %+v, %+v", tail, got, s, kept)
		}
	}
	saved(1)
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	for tail := range uint64(3) {
		saved(2 + tail)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	saved(9)
	s.Steps = make([]shiftStep, 200) // more than fits
	if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := s.save(dir); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("more than the brief has room for: %v", err)
	}
}
