package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reprise/internal/execution/command"
)

// Options are the settings of a Pool.
type Options struct {
	// MaxIdle is the maximum number of idle supervisors that are kept to start the next commands faster.
	MaxIdle int
	// DisableCgroups makes supervisors find the processes of a command in another way than by a cgroup.
	DisableCgroups bool
}

const (
	// BriefFile is the file in the directory of a run in which the server keeps what it needs after a restart.
	BriefFile = "run.json"
	// SparePrefix begins the names of directories that supervisors keep for their next runs.
	SparePrefix = "spare-"
	// SpoolGone is the reason why a command was ended after its directory was removed: no server could find it again.
	SpoolGone = "its spool was removed"

	endFile = "end.json"
)

// attemptIn returns the attempt in the brief of a run: the latest one of a server to start its command.
func attemptIn(dir string) string {
	var brief struct{ Run, Attempt string }
	if text, err := os.ReadFile(filepath.Join(dir, BriefFile)); err == nil {
		_ = json.Unmarshal(text, &brief)
	}
	if brief.Run != "" && brief.Run != filepath.Base(dir) { // a crash of the machine has brought it back
		return ""
	}
	return brief.Attempt
}

// HasBegun reports whether a supervisor has ever taken the directory.
func HasBegun(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, lockFile))
	return err == nil && info.Size() > 0
}

// LockDead locks the directory of a run whose server is dead. A supervisor that had not got the command from it has the
// lock until it notices that.
func LockDead(dir string) (*os.File, error) {
	for deadline := time.Now().Add(idlePatience); ; time.Sleep(lockRetry) {
		lock, err := Lock(dir)
		if !errors.Is(err, ErrHeld) || HasBegun(dir) || time.Now().After(deadline) {
			return lock, err
		}
	}
}

const (
	// idlePatience is the time in which a supervisor without a command ends after its server.
	idlePatience = 5 * time.Second
	lockRetry    = 10 * time.Millisecond
)

// KillLeft ends the processes that a killed supervisor has left in its cgroup. It reports whether these are all,
// because none could leave it.
func KillLeft(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, lockFile))
	trace, _, _ := strings.Cut(string(text), "\n")
	return err == nil && command.KillLeft(trace)
}

// Crash returns what a supervisor that has crashed has written, or "".
func Crash(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil || bytes.Count(text, []byte{'\n'}) <= 1 {
		return ""
	}
	return string(text)
}

// Ending is how a command ended whose end no server has fetched. Tail is the last frame of the spool, whose files may
// have lost it in a crash of the machine. It is 0 if there was no frame, or the supervisor is an older one.
type Ending struct {
	command.Ending
	Run  string `json:"run,omitempty"` // the name of the directory
	Tail uint64 `json:"tail,omitempty"`
}

// writeEnding writes the file of an end.
func writeEnding(dir string, e *command.Ending, tail uint64) error {
	text, err := json.Marshal(Ending{Ending: *e, Run: filepath.Base(dir), Tail: tail})
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, endFile), text)
}

// ReadEnding reads the end that a supervisor has left; ended is false if it is missing or incomplete. The error is one
// of the file system.
func ReadEnding(dir string) (e Ending, ended bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, endFile))
	if errors.Is(err, fs.ErrNotExist) {
		return e, false, nil
	}
	if err != nil || json.Unmarshal(text, &e) != nil || e.Run != "" && e.Run != filepath.Base(dir) {
		return Ending{}, false, err
	}
	return e, e.Outcome != "", nil
}
