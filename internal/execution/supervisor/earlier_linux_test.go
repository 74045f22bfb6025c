package supervisor

import (
	"os"
	"testing"
	"time"

	"reprise/internal/execution/command"
	"reprise/internal/isolation"
	"reprise/internal/spawn"
)

// TestCallForEarlierRunIsIgnored: the server is done with a run late, when the supervisor has the next one. The end of
// that stays until the server has taken it. A call that names no run, as of an older server, is for the run there is.
func TestCallForEarlierRunIsIgnored(t *testing.T) {
	spawner := spawn.New()
	defer spawner.Close()
	s, err := OpenPool(t.TempDir(), spawner, Options{MaxIdle: 1, DisableCgroups: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin := func(run string) (*Worker, *Link) {
		t.Helper()
		dir := s.Remote(run).Dir
		had, err := s.MakeDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		w, l, err := s.Give(&Order{
			Dir: dir,
			Plan: &command.Plan{
				Argv: []string{"true"}, Cwd: "/", Environ: []string{"PATH=" + os.Getenv("PATH")}, Mark: "MARK=" + run,
				Isolation: &isolation.Plan{Level: isolation.None},
			},
		}, had)
		if err != nil {
			t.Fatal(err)
		}
		for {
			n, err := l.Take()
			if err != nil {
				t.Fatal(err)
			}
			if n.Ended != nil {
				if n.Ended.Outcome != command.Exited {
					t.Fatalf("%+v", n.Ended)
				}
				return w, l
			}
		}
	}
	w, first := begin("first")
	first.Forget()
	onlyWorker(t, s, w)
	again, second := begin("second")
	if again != w {
		t.Fatal("another supervisor has the second run")
	}
	if err := first.send(callOf(callForget)); err != nil {
		t.Fatal(err)
	}
	m := s.Remote("second")
	for range 50 { // it would be gone at one of them
		if got, err := m.Status(t.Context()); err != nil || got.Ended == nil {
			t.Fatalf("the second run is gone: %+v, %v", got, err)
		}
	}
	forget := callOf(callForget)
	if err := w.orders.Send(&Order{Call: &forget}); err != nil { // as an older server
		t.Fatal(err)
	}
	<-second.failed
	if _, err := os.Stat(m.Dir); err == nil {
		t.Error("the second run was not forgotten")
	}
}

// onlyWorker ends all supervisors but w, so that the next run gets that one.
func onlyWorker(t *testing.T, s *Pool, w *Worker) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		s.mu.Lock()
		ready := !s.warming && len(s.workers) == 1 && len(s.idle) == 1
		for other := range s.workers {
			if other != w && !s.warming {
				_ = other.orders.Close()
			}
		}
		s.mu.Unlock()
		if ready {
			return
		}
	}
	t.Fatal("other supervisors are left")
}
