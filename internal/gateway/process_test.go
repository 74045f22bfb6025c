package gateway_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/gateway"
)

// alive reports whether a process runs and is no zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestSessionGoesOnAfterUpstreamCrashes(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		f := newFixture(t, gateway.Upstream{}).start()
		s := f.connect(version, nil)
		first, err := call(s, "pid", nil)
		check(t, err)
		waiting := make(chan error, 1)
		go func() {
			_, err := call(s, "sleep", args{"ms": 600_000})
			waiting <- err
		}()
		f.eventually("the other call is under way", func() bool { return f.slept() > 0 })
		f.wantError(s, "crash", nil, "the upstream ended before it had answered")
		if err := <-waiting; codeOf(err) != "upstream_lost" {
			t.Errorf("the other call ends with %v", err)
		}
		f.eventually("another process answers", func() bool {
			second, err := call(s, "pid", nil)
			return err == nil && second != first
		})
		f.want(s, "count", nil, "1")
	})
}

func TestUpstreamThatKeepsStateIsNotReplaced(t *testing.T) {
	f := newFixture(t, gateway.Upstream{KeepsState: true}).start()
	s := f.connect("2025-11-25", nil)
	f.wantError(s, "crash", nil, "the upstream ended before it had answered")
	f.wantError(s, "echo", args{"text": "x"}, "begin a new session")
	f.want(f.connect("2025-11-25", nil), "echo", args{"text": "x"}, "x")
}

func TestProcessTreeEndsWithItsUpstream(t *testing.T) {
	f := newFixture(t, gateway.Upstream{}).start()
	s := f.connect("2025-11-25", nil)
	left, err := call(s, "fork", nil)
	check(t, err)
	if !alive(left) {
		t.Fatal("nothing was forked")
	}
	f.wantError(s, "crash", nil, "the upstream ended")
	f.eventually("what the process has started has ended", func() bool { return !alive(left) })
}

func TestGarbageOnStdoutIsSkipped(t *testing.T) {
	f := newFixture(t, gateway.Upstream{}).start()
	s := f.connect("2025-11-25", nil)
	f.want(s, "garbage", args{"n": 100_000}, "printed")
	f.want(s, "echo", args{"text": "after"}, "after")
	if n := len(f.logged.String()); n > 200_000 {
		t.Errorf("%d bytes were logged", n)
	}
	f.eventually("the garbage is logged", func() bool { return strings.Contains(f.logged.String(), "no message") })
}

func TestLogOfStderrFloodIsBounded(t *testing.T) {
	f := newFixture(t, gateway.Upstream{}).start()
	s := f.connect("2025-11-25", nil)
	f.want(s, "flood", args{"n": 200_000}, "flooded")
	f.want(s, "echo", args{"text": "after"}, "after")
	if n := len(f.logged.String()); n > 200_000 {
		t.Errorf("%d bytes were logged", n)
	}
}

func TestLargeResponseIsPassedUpToTheLimit(t *testing.T) {
	f := newFixture(t, gateway.Upstream{}).start()
	s := f.connect("2025-11-25", nil)
	text, err := call(s, "big", args{"n": 6 << 20})
	check(t, err)
	if len(text) != 6<<20 {
		t.Errorf("%d bytes came", len(text))
	}
	f.wantError(s, "big", args{"n": 12 << 20}, "at most")
	f.want(s, "echo", args{"text": "after"}, "after")
}

func TestSilentCallIsAnsweredAfterTimeout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, version string) {
		t.Parallel()
		f := newFixture(t, gateway.Upstream{Timeout: 10 * time.Second}).start()
		s := f.connect(version, nil)
		f.wantError(s, "never", nil, "said nothing about the request for 10s")
		f.want(s, "steps", args{"n": 1, "ms": 10}, "done")
	})
}

func TestCommandInheritsNamedVariablesAlone(t *testing.T) {
	t.Setenv("REPRISE_TEST_SECRET", "secret")
	t.Setenv("REPRISE_TEST_PASSED", "passed")
	f := newFixture(t,
		gateway.Upstream{Env: map[string]string{"GIVEN": "given"}, PassEnv: []string{"REPRISE_TEST_PASSED"}}).start()
	s := f.connect("2025-11-25", nil)
	for name, value := range map[string]string{
		"REPRISE_TEST_SECRET": "", "REPRISE_TEST_PASSED": "passed", "GIVEN": "given", "PATH": os.Getenv("PATH"),
	} {
		f.want(s, "env", args{"text": name}, value)
	}
}

func TestInitializeFailsWhenUpstreamDoesNotStart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program") // that the system cannot execute
	if err := os.WriteFile(program, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, gateway.Upstream{Command: []string{program}}).start()
	status, body := f.post("", initialize("2025-11-25"))
	if status != 200 || !strings.Contains(body, "cannot be started") {
		t.Errorf("the answer is %d %s", status, body)
	}
	second := newFixture(t, gateway.Upstream{Command: []string{"false"}}).start()
	status, body = second.post("", initialize("2025-11-25"))
	if status != 200 || !strings.Contains(body, "upstream_unavailable") {
		t.Errorf("the answer is %d %s", status, body)
	}
}

func TestMissingProgramIsRefused(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"no-such-program", "/no/such/program", plain} {
		g, err := gateway.New(&gateway.Upstream{Command: []string{program}}, nil)
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v", program, err)
		}
		if g != nil {
			check(t, g.Close())
		}
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	f := newFixture(t, gateway.Upstream{MaxConnections: 1}).start()
	s := f.connect("2025-11-25", nil)
	if _, body := f.post("", initialize("2025-11-25")); !strings.Contains(body, `"code":"limit"`) {
		t.Errorf("the answer is %s", body)
	}
	check(t, s.Close())
	f.eventually("there is room again", func() bool {
		_, body := f.post("", initialize("2025-11-25"))
		return strings.Contains(body, "serverInfo")
	})
}

func TestIdleConnectionGivesWayToNewSession(t *testing.T) {
	f := newFixture(t, gateway.Upstream{MaxConnections: 3, Idle: 50 * time.Millisecond}).start()
	first := f.connect("2025-11-25", nil)
	pid, err := call(first, "pid", nil)
	check(t, err)
	for range 20 {
		f.eventually("there is room", func() bool {
			_, body := f.post("", initialize("2025-11-25"))
			return strings.Contains(body, "serverInfo")
		})
	}
	if alive(pid) {
		t.Error("the first process lives still")
	}
	f.eventually("the first session goes on", func() bool {
		got, err := call(first, "count", nil)
		return err == nil && got == "1"
	})
}

// TestClientThatDoesNotReadDelaysNobody: two clients share a process, and one of them takes no bytes.
func TestClientThatDoesNotReadDelaysNobody(t *testing.T) {
	f := newFixture(t, gateway.Upstream{Shared: true}).start()
	s := f.connect("2026-07-28", nil)
	f.want(s, "echo", args{"text": "x"}, "x")
	text := strings.Repeat("x", 100_000)
	resp := f.streaming("tools/call", "steps",
		`"name":"steps","arguments":{"n":1000,"text":"`+text+`"}`, `"progressToken":1,`)
	defer resp.Body.Close()
	began := time.Now()
	for range 20 {
		f.want(s, "echo", args{"text": "x"}, "x")
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("20 small calls took %v", took)
	}
}

// TestTimeoutExcludesTimeOfClientsAnswer: the time that the client takes to answer is not the upstream's.
func TestTimeoutExcludesTimeOfClientsAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gateway.Upstream{Timeout: 10 * time.Second}).start()
	s := f.connect("2025-11-25", &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			time.Sleep(11 * time.Second)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "late"}}, nil
		},
	})
	f.want(s, "ask", args{"text": "who"}, "accept late")
}
