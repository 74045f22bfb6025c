package execution

import (
	"os"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/isolation"
	"reprise/internal/spawn"
)

// TestCallForEarlierRunIsIgnored: the server is done with a run late, when the supervisor has the next one. The end of
// that stays until the server has taken it. A call that names no run, as of an older server, is for the run there is.
func TestCallForEarlierRunIsIgnored(t *testing.T) {
	spawner := spawn.New()
	defer spawner.Close()
	s, err := openSupervisors(&Options{RunsDir: t.TempDir(), MaxIdle: 1}, spawner)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	begin := func(epoch reprise.Epoch) (*worker, *link) {
		t.Helper()
		dir := s.dirOf(epoch)
		had, err := s.makeDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		w, l, err := s.give(&order{
			Dir: dir, Secret: s.secret, DisableCgroups: true,
			Plan: &command.Plan{
				Argv: []string{"true"}, Cwd: "/", Environ: []string{"PATH=" + os.Getenv("PATH")}, Mark: markOf(epoch),
				Isolation: &isolation.Plan{Level: isolation.None},
			},
		}, had)
		if err != nil {
			t.Fatal(err)
		}
		for {
			n, err := l.news.take(nil)
			if err != nil {
				t.Fatal(err)
			}
			if n.Ended != nil {
				if n.Ended.Outcome != Exited {
					t.Fatalf("%+v", n.Ended)
				}
				return w, l
			}
		}
	}
	w, first := begin("first")
	if err := first.send(call{Op: callForget}); err != nil {
		t.Fatal(err)
	}
	first.awaitForgotten()
	onlyWorker(t, s, w)
	again, second := begin("second")
	if again != w {
		t.Fatal("another supervisor has the second run")
	}
	if err := first.send(call{Op: callForget}); err != nil {
		t.Fatal(err)
	}
	m := &remote{dir: s.dirOf("second"), secret: s.secret}
	for range 50 { // it would be gone at one of them
		if got, err := m.call(t.Context(), call{Op: callStatus}); err != nil || got.News.Ended == nil {
			t.Fatalf("the second run is gone: %+v, %v", got, err)
		}
	}
	if err := w.orders.Send(&order{Call: &call{Op: callForget}}); err != nil { // as an older server
		t.Fatal(err)
	}
	second.awaitForgotten()
	if _, err := os.Stat(m.dir); err == nil {
		t.Error("the second run was not forgotten")
	}
}

// onlyWorker ends all supervisors but w, so that the next run gets that one.
func onlyWorker(t *testing.T, s *supervisors, w *worker) {
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
