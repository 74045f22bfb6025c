//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package command

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// On Windows and other systems that are not Unix, a command ends as failed_to_start. Programs that are
// also clients can therefore be built there.

var errNeedsUnix = fmt.Errorf("commands are run on Linux, macOS and the BSDs alone: %w", errors.ErrUnsupported)

// WithoutCgroups is how a server describes its process tracking.
const WithoutCgroups = "no commands are run here"

func newPlainTree(*Plan) tree { return bareTree{} }

func (*System) startChild(*Plan, tree) (*child, error) { return nil, errNeedsUnix }

func (*child) await()                      {}
func (*child) reap() (exit, error)         { return exit{}, errNeedsUnix }
func (*child) signal(syscall.Signal) error { return errNeedsUnix }
func (*child) resize(*Size) error          { return errNeedsUnix }

func parseSignal(name string) (syscall.Signal, error) {
	return 0, refuse(Invalid, "%q: %v", name, errNeedsUnix)
}

// HeedSignals does nothing here.
func HeedSignals() {}

func readFile(uintptr, []byte) (int, error) { return 0, os.ErrDeadlineExceeded }
