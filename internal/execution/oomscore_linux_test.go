package execution_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"reprise/internal/execution"
)

func TestCommandsAreKilledBeforeTheirServer(t *testing.T) {
	h := newHost(t, execution.Options{RunsDir: t.TempDir()})
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	const command = `cat /proc/self/oom_score_adj; echo of $PPID; read -r x`
	x := start(t, h, execution.Request{Command: command, Isolation: "none", StdinOpen: true})
	text := await(t, h, x.ID, "of ")
	score, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	if want := strconv.Itoa(max(score, 300)) + "\n"; !strings.HasPrefix(text, want) {
		t.Errorf("a command has the score %q, want %q", text, want)
	}
	_, parent, _ := strings.Cut(strings.TrimSpace(text), "of ")
	supervisor, err := os.ReadFile("/proc/" + parent + "/oom_score_adj")
	if err != nil || string(supervisor) != string(own) {
		t.Errorf("its supervisor has the score %q, the server %q; %v", supervisor, own, err)
	}
}
