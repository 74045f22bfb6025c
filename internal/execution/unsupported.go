//go:build !linux

package execution

import (
	"errors"
	"fmt"
	"sync/atomic"

	"reprise"
	"reprise/internal/spawn"
)

// Systems other than Linux have no supervisors, no cgroups, and no access to the environment of other processes, by
// which the processes of a dead server could be found.

var errNeedsLinux = fmt.Errorf("only Linux supports it: %w", errors.ErrUnsupported)

// Supervise does nothing here.
func Supervise() {}

type supervisors struct{ dir, secret string }

func (*supervisors) counts() (busy, idle int) { return 0, 0 }

type worker struct{ left atomic.Bool }

func openSupervisors(*Options, *spawn.Spawner) (*supervisors, error) { return nil, errNeedsLinux }

func (*supervisors) dirOf(reprise.Epoch) string { return "" }

func (*supervisors) give(*order, *worker) (*worker, *link, error) { return nil, nil, errNeedsLinux }

func (*supervisors) makeDir(string) (*worker, error) { return nil, errNeedsLinux }

func (*supervisors) put(*worker, bool) {}

func (*supervisors) warm()  {}
func (*supervisors) close() {}
