package supervisor

import (
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"reprise/internal/spawn"
)

// slackFile tells the timer slack of the process that reads it.
const slackFile = "/proc/self/timerslack_ns"

// printedBy returns what a program prints that start starts with an empty environment.
func printedBy(t *testing.T, s *spawn.Spawner, start func(string, []string, *os.ProcAttr) (*os.Process, error),
	argv ...string,
) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := s.StartBy(start, argv[0], argv, &os.ProcAttr{Env: []string{}, Files: []*os.File{nil, w, nil}})
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestTimerSlackIsForSupervisorsOnly: a supervisor inherits a longer timer slack, so that the monitor thread of its Go
// runtime wakes up less often, and is told that of the server. Commands have that of the server.
func TestTimerSlackIsForSupervisorsOnly(t *testing.T) {
	s := spawn.New()
	defer s.Close()
	slack := func(start func(string, []string, *os.ProcAttr) (*os.Process, error)) string {
		return printedBy(t, s, start, "/bin/cat", slackFile)
	}
	ours := slack(os.StartProcess)
	if got := slack(startDrowsy); got != strconv.Itoa(drowsySlack) {
		t.Errorf("a supervisor has a timer slack of %s ns, not %d", got, drowsySlack)
	}
	if got := slack(os.StartProcess); got != ours {
		t.Errorf("the next process of the server has a timer slack of %s ns, not %s", got, ours)
	}
	told := printedBy(t, s, startDrowsy, "/bin/sh", "-c", "echo $"+envSlack)
	if told != ours {
		t.Errorf("a supervisor is told that the server has a timer slack of %s ns, not %s", told, ours)
	}

	supervisors := spawn.New()
	defer supervisors.Close()
	supervisors.Do(func() { _ = setTimerSlack(drowsySlack) })
	t.Setenv(envSlack, told)
	wakeSpawner(supervisors)
	if got := printedBy(t, supervisors, os.StartProcess, "/bin/cat", slackFile); got != ours {
		t.Errorf("a command has a timer slack of %s ns, not %s", got, ours)
	}
}
