package command

import (
	"os"
	"strconv"
	"strings"
)

// When memory runs out, the kernel kills the process with the highest score. Commands get a higher one than the server
// and the supervisors have, so that a command that takes all memory is killed, and its output and outcome are kept. See
// proc_pid_oom_score_adj(5).

const (
	scoreFile = "/proc/self/oom_score_adj"
	// commandScore is about the share of the memory, in thousandths, that a supervisor could take before it is killed
	// in place of a command.
	commandScore = 300
)

// killedFirst calls f, which starts a command. In a supervisor, the command gets this score, which the supervisor has
// meanwhile.
func (s *System) killedFirst(f func()) {
	if s.reaper == nil { // it starts others too
		f()
		return
	}
	before, err := os.ReadFile(scoreFile)
	if err == nil {
		score, _ := strconv.Atoi(strings.TrimSpace(string(before)))
		if score < commandScore && os.WriteFile(scoreFile, []byte(strconv.Itoa(commandScore)), 0) == nil {
			defer func() { _ = os.WriteFile(scoreFile, before, 0) }()
		}
	}
	f()
}
