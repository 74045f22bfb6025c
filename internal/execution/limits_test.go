package execution_test

import (
	"testing"
	"time"

	"reprise/internal/execution"
	"reprise/internal/isolation"
)

func TestLimitsEndTheCommand(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		const spin = "while :; do :; done"
		for name, c := range map[string]struct {
			command string
			limits  execution.Limits
			want    string
		}{
			"memory": {
				`exec perl -e '$x = "x" x (200 << 20); sleep 100'`,
				execution.Limits{MemoryBytes: 50 << 20},
				"memory_bytes",
			},
			"processes": {
				`for i in 1 2 3 4 5 6 7 8; do setsid sleep 100 & done; wait`,
				execution.Limits{Processes: 4},
				"processes",
			},
			"cpu":    {spin, execution.Limits{CPUTime: execution.Duration(300 * time.Millisecond)}, "cpu_time"},
			"output": {"yes", execution.Limits{OutputBytes: 1_000_001}, "output_bytes"},
		} {
			t.Run(name, func(t *testing.T) {
				x := finish(t, h, start(t, h, execution.Request{Command: c.command, Limits: c.limits}).ID)
				wantOutcome(t, x, execution.LimitExceeded, 0, "KILL")
				if x.Limit != c.want {
					t.Errorf("limit %s, want %s", x.Limit, c.want)
				}
				if x.Isolation == nil || x.Isolation.Level != string(isolation.Limits) {
					t.Errorf("isolation %+v", x.Isolation)
				}
				if name == "output" && (x.Bytes.Stdout != c.limits.OutputBytes || !x.OutputTruncated) {
					t.Errorf("%d bytes, truncated %t", x.Bytes.Stdout, x.OutputTruncated)
				}
			})
		}
		x := finish(t, h, start(t, h, execution.Request{Command: "printf 12345", Limits: execution.Limits{
			OutputBytes: 5, MemoryBytes: 1 << 30, Processes: 10, CPUTime: execution.Duration(time.Minute),
		}}).ID)
		wantOutcome(t, x, execution.Exited, 0, "")
		if in := x.Isolation; in.Memory == "" || in.Processes == "" || in.CPU == "" || in.Kill == "" ||
			x.OutputTruncated {
			t.Errorf("isolation %+v, truncated %t", in, x.OutputTruncated)
		}
	})
}

func TestUsageIsThatOfTheTree(t *testing.T) {
	trees(t, func(t *testing.T, opts execution.Options) {
		h := newHost(t, opts)
		x := sh(t, h, `perl -e '$x = "x" x (300 << 20); for (1..1_000_000) { $n++ } select undef, undef, undef, 0.3'`)
		wantOutcome(t, x, execution.Exited, 0, "")
		// The kernel's count of resident pages is inaccurate; see proc(5).
		if x.Usage.UserMS+x.Usage.SystemMS == 0 || x.Usage.MaxRSSBytes < 200<<20 {
			t.Errorf("usage %+v", x.Usage)
		}
	})
}

// TestLimitsHoldWhileOutputIsAwaited: the command has ended, and a process that holds its output goes on.
func TestLimitsHoldWhileOutputIsAwaited(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		opts.DrainTimeout = patience / 4
		h := newHost(t, opts)
		x := start(t, h, execution.Request{
			Command: `perl -e 'select undef, undef, undef, 0.01 while getppid() == $ARGV[0];
				$x = "x" x (200 << 20); sleep 1000' $$ & exit 0`,
			Limits: execution.Limits{MemoryBytes: 50 << 20},
		})
		x = finish(t, h, x.ID)
		wantOutcome(t, x, execution.LimitExceeded, 0, "")
		if x.Limit != "memory_bytes" || !x.OutputTruncated {
			t.Errorf("limit %s, truncated %t", x.Limit, x.OutputTruncated)
		}
	})
}

// TestTimeoutHoldsWhileOutputIsAwaited: the command has ended by itself, and that stays its outcome.
func TestTimeoutHoldsWhileOutputIsAwaited(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		opts.DrainTimeout = time.Hour
		h := newHost(t, opts)
		x := start(t, h, execution.Request{
			Command: "setsid sleep 1000 & exit 6", Timeout: execution.Duration(3 * time.Second),
		})
		wantOutcome(t, finish(t, h, x.ID), execution.Exited, 6, "")
	})
}
