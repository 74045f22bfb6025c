package bench

import "testing"

func TestPartIsThatOfTheInnermostNamedFunction(t *testing.T) {
	for _, c := range []struct {
		want  string
		stack []string
	}{
		{"kernel: write to the sockets", []string{
			"internal/runtime/syscall.Syscall6", "syscall.RawSyscall6", "syscall.write", "internal/poll.(*FD).Write",
			"net/http.(*conn).serve",
		}},
		{"reprise: append, commit, publish, read", []string{
			"runtime.memmove", "reprise.(*lane).stage", "reprise/internal/api.(*Server).publish",
			"net/http.(*conn).serve",
		}},
		{"internal/api, identity, quota, metrics: access and answer", []string{
			"reprise/internal/api.(*Server).publish", "net/http.(*conn).serve",
		}},
		{"wake-ups: Go's scheduler and epoll", []string{"runtime.futex", "runtime.schedule", "runtime.mcall"}},
		{partRest, []string{"runtime.memmove"}},
	} {
		if got := partOf(c.stack); got != c.want {
			t.Errorf("%s is of %q, want %q", c.stack[0], got, c.want)
		}
	}
}

func TestReadersCostTheDifference(t *testing.T) {
	alone, followed := parts{"a": 3, "b": 2}, parts{"a": 13, "b": 1, "c": 10}
	got := followed.minus(alone).over(5)
	if got["a"] != 2 || got["b"] != 0 || got["c"] != 2 || got.total() != 4 {
		t.Errorf("each of five readers costs %v", got)
	}
}
