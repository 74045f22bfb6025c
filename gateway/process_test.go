package gateway_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/gateway"
)

// alive reports whether a process runs and is no zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestCrashAnswersWhatWaitsAndTheSessionGoesOn(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		w := newWorld(t, gateway.Upstream{}).start()
		s := w.connect(version, nil)
		first, err := call(s, "pid", nil)
		check(t, err)
		waiting := make(chan error, 1)
		go func() {
			_, err := call(s, "sleep", args{"ms": 60_000})
			waiting <- err
		}()
		time.Sleep(50 * time.Millisecond)
		w.wantError(s, "crash", nil, "the upstream ended before it had answered")
		if err := <-waiting; codeOf(err) != "upstream_lost" {
			t.Errorf("the other call ends with %v", err)
		}
		w.eventually("another process answers", func() bool {
			second, err := call(s, "pid", nil)
			return err == nil && second != first
		})
		w.want(s, "count", nil, "1")
	})
}

func TestUpstreamThatKeepsStateIsNotReplaced(t *testing.T) {
	w := newWorld(t, gateway.Upstream{KeepsState: true}).start()
	s := w.connect("2025-11-25", nil)
	w.wantError(s, "crash", nil, "the upstream ended before it had answered")
	w.wantError(s, "echo", args{"text": "x"}, "begin a new session")
	w.want(w.connect("2025-11-25", nil), "echo", args{"text": "x"}, "x")
}

func TestWholeTreeEnds(t *testing.T) {
	w := newWorld(t, gateway.Upstream{}).start()
	s := w.connect("2025-11-25", nil)
	left, err := call(s, "fork", nil)
	check(t, err)
	if !alive(left) {
		t.Fatal("nothing was forked")
	}
	w.wantError(s, "crash", nil, "the upstream ended")
	w.eventually("what the process has started has ended", func() bool { return !alive(left) })
}

func TestGarbageOnStdoutIsSkipped(t *testing.T) {
	w := newWorld(t, gateway.Upstream{}).start()
	s := w.connect("2025-11-25", nil)
	w.want(s, "garbage", args{"n": 100_000}, "printed")
	w.want(s, "echo", args{"text": "after"}, "after")
	if n := len(w.logged.String()); n > 200_000 {
		t.Errorf("%d bytes were logged", n)
	}
	w.eventually("the garbage is logged", func() bool { return strings.Contains(w.logged.String(), "no message") })
}

func TestFloodOfStderrIsBounded(t *testing.T) {
	w := newWorld(t, gateway.Upstream{}).start()
	s := w.connect("2025-11-25", nil)
	w.want(s, "flood", args{"n": 200_000}, "flooded")
	w.want(s, "echo", args{"text": "after"}, "after")
	if n := len(w.logged.String()); n > 200_000 {
		t.Errorf("%d bytes were logged", n)
	}
}

func TestLargeMessages(t *testing.T) {
	w := newWorld(t, gateway.Upstream{}).start()
	s := w.connect("2025-11-25", nil)
	text, err := call(s, "big", args{"n": 6 << 20})
	check(t, err)
	if len(text) != 6<<20 {
		t.Errorf("%d bytes came", len(text))
	}
	w.wantError(s, "big", args{"n": 12 << 20}, "at most")
	w.want(s, "echo", args{"text": "after"}, "after")
}

func TestUpstreamThatNeverAnswers(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		w := newWorld(t, gateway.Upstream{Timeout: 300 * time.Millisecond}).start()
		s := w.connect(version, nil)
		w.wantError(s, "never", nil, "said nothing about the request for 300ms")
		w.want(s, "steps", args{"n": 1, "ms": 10}, "done")
	})
}

func TestEnvironmentIsOurs(t *testing.T) {
	t.Setenv("REPRISE_TEST_SECRET", "secret")
	t.Setenv("REPRISE_TEST_PASSED", "passed")
	w := newWorld(t, gateway.Upstream{Env: map[string]string{"GIVEN": "given"}, PassEnv: []string{"REPRISE_TEST_PASSED"}}).start()
	s := w.connect("2025-11-25", nil)
	for name, value := range map[string]string{
		"REPRISE_TEST_SECRET": "", "REPRISE_TEST_PASSED": "passed", "GIVEN": "given", "PATH": os.Getenv("PATH"),
	} {
		w.want(s, "env", args{"text": name}, value)
	}
}

func TestUpstreamThatDoesNotStart(t *testing.T) {
	w := newWorld(t, gateway.Upstream{Command: []string{"/no/such/program"}}).start()
	status, body := w.post("", initialize("2025-11-25"))
	if status != 200 || !strings.Contains(body, "cannot be started") {
		t.Errorf("the answer is %d %s", status, body)
	}
	w2 := newWorld(t, gateway.Upstream{Command: []string{"false"}}).start()
	status, body = w2.post("", initialize("2025-11-25"))
	if status != 200 || !strings.Contains(body, "upstream_unavailable") {
		t.Errorf("the answer is %d %s", status, body)
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	w := newWorld(t, gateway.Upstream{MaxConnections: 1}).start()
	s := w.connect("2025-11-25", nil)
	if _, body := w.post("", initialize("2025-11-25")); !strings.Contains(body, `"code":"limit"`) {
		t.Errorf("the answer is %s", body)
	}
	check(t, s.Close())
	w.eventually("there is room again", func() bool {
		_, body := w.post("", initialize("2025-11-25"))
		return strings.Contains(body, "serverInfo")
	})
}

func TestAbandonedSessionsGiveWay(t *testing.T) {
	w := newWorld(t, gateway.Upstream{MaxConnections: 3, Idle: 50 * time.Millisecond}).start()
	first := w.connect("2025-11-25", nil)
	pid, err := call(first, "pid", nil)
	check(t, err)
	for range 20 {
		w.eventually("there is room", func() bool {
			_, body := w.post("", initialize("2025-11-25"))
			return strings.Contains(body, "serverInfo")
		})
	}
	if alive(pid) {
		t.Error("the first process lives still")
	}
	w.eventually("the first session goes on", func() bool {
		got, err := call(first, "count", nil)
		return err == nil && got == "1"
	})
}

// TestClientThatDoesNotReadHoldsNobodyUp: two clients share a process, and one of them takes no bytes.
func TestClientThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, gateway.Upstream{Shared: true}).start()
	s := w.connect("2026-07-28", nil)
	w.want(s, "echo", args{"text": "x"}, "x")
	text := strings.Repeat("x", 100_000)
	resp := w.streaming("tools/call", "steps", `"name":"steps","arguments":{"n":1000,"text":"`+text+`"}`, `"progressToken":1,`)
	defer resp.Body.Close()
	began := time.Now()
	for range 20 {
		w.want(s, "echo", args{"text": "x"}, "x")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("20 small calls took %v", took)
	}
}

// TestQuestionIsNoSilence: the time that the client takes to answer is not the upstream's.
func TestQuestionIsNoSilence(t *testing.T) {
	w := newWorld(t, gateway.Upstream{Timeout: 200 * time.Millisecond}).start()
	s := w.connect("2025-11-25", &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			time.Sleep(time.Second)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "late"}}, nil
		},
	})
	w.want(s, "ask", args{"text": "who"}, "accept late")
}
