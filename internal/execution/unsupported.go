//go:build !linux

package execution

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"reprise"
	"reprise/internal/spawn"
)

// Elsewhere than on Linux nothing can be run: Host.Start takes requests, and their runs
// end as failed_to_start. It lets programs be built there that are clients too.

var errNeedsLinux = fmt.Errorf("commands are run on Linux alone: %w", errors.ErrUnsupported)

type cgroups struct{}

func openCgroups(*spawn.Spawner) (*cgroups, error) { return nil, errNeedsLinux }

func (*cgroups) newTree(string) (tree, error) { return nil, errNeedsLinux }

func (*cgroups) close() {}

// noTree is the tree of a run that cannot be started.
type noTree struct{}

func newScanTree(string) tree { return noTree{} }

func (noTree) prepare(*syscall.SysProcAttr) {}
func (noTree) started(int)                  {}
func (noTree) terminate()                   {}
func (noTree) kill() int                    { return 0 }
func (noTree) usage() treeUsage             { return treeUsage{} }
func (noTree) enforce(Limits, *Isolation)   {}
func (noTree) kind() string                 { return "" }
func (noTree) exceeded() string             { return "" }
func (noTree) close()                       {}

func startChild(*spawn.Spawner, *spec, tree) (*child, error) { return nil, errNeedsLinux }

func (*child) await()                      {}
func (*child) reap() (exit, error)         { return exit{}, errNeedsLinux }
func (*child) signal(syscall.Signal) error { return errNeedsLinux }
func (*child) resize(*TTY) error           { return errNeedsLinux }

func killMarked([]string) {}

func killLeft(string) bool { return false }

// Supervise does nothing here.
func Supervise() {}

type supervisors struct{ dir, secret string }

func (*supervisors) counts() (busy, idle int) { return 0, 0 }

type worker struct{ left atomic.Bool }

func openSupervisors(*Options, *spawn.Spawner) (*supervisors, error) { return nil, errNeedsLinux }

func (*supervisors) dirOf(reprise.Epoch) string   { return "" }
func (*supervisors) give(*order) (*worker, error) { return nil, errNeedsLinux }
func (*supervisors) warm()                        {}
func (*supervisors) close()                       {}

func parseSignal(name string) (syscall.Signal, error) {
	return 0, invalid("signal", "%q: %v", name, errNeedsLinux)
}
