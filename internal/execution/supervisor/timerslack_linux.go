package supervisor

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"reprise/internal/spawn"
)

// While a supervisor is busy, the monitor thread of its Go runtime looks every 20 µs whether a goroutine runs for too
// long. The kernel adds the timer slack of the thread, 50 µs, and a short command took a dozen wake-ups of that thread.
// The slack is inherited, so a supervisor gets a longer one at its start, for all its threads. Its own timers may be
// late by that time. Commands get the slack of the server.

// drowsySlack is the timer slack of supervisors in nanoseconds. It is less than what anybody notices in a terminal.
const drowsySlack = 500_000

// envSlack is the variable in which a supervisor receives the timer slack of its command in nanoseconds.
const envSlack = "REPRISE_TIMER_SLACK"

// startDrowsy is os.StartProcess for a supervisor, on the thread of a Spawner.
func startDrowsy(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack <= 0 || slack >= drowsySlack || setTimerSlack(drowsySlack) != nil {
		return os.StartProcess(path, argv, attr)
	}
	// The thread may start other processes afterwards.
	defer func() { _ = setTimerSlack(slack) }()
	drowsy := *attr
	drowsy.Env = append(attr.Env[:len(attr.Env):len(attr.Env)], envSlack+"="+strconv.Itoa(slack))
	return os.StartProcess(path, argv, &drowsy)
}

// wakeSpawner gives the thread of the Spawner of a supervisor, and so its commands, the timer slack of the server.
func wakeSpawner(s *spawn.Spawner) {
	if slack, err := strconv.Atoi(os.Getenv(envSlack)); err == nil && slack > 0 {
		s.Do(func() { _ = setTimerSlack(slack) })
	}
}

func setTimerSlack(ns int) error { return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(ns), 0, 0, 0) }
