package command

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reprise/internal/isolation"
)

// HoldsLimits: memory, processes and CPU time of a command can be bounded.
const HoldsLimits = true

// AdoptOrphans makes this process the adopter of the orphans of its commands, of which it has one at a time.
func (s *System) AdoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	s.reaper = newReaper()
	return nil
}

// newTree is the tree of a command that is about to be started.
func (s *System) newTree(p *Plan) tree {
	var t tree
	if s.cgroups != nil {
		_, name, _ := strings.Cut(p.Mark, "=")
		group, err := s.cgroups.newTree(name)
		if err == nil {
			t = group
		} else if s.Logger != nil {
			s.Logger.Warn("no cgroup for an execution", "execution", p.ID, "error", err)
		}
	}
	switch {
	case t == nil && s.reaper == nil:
		return newScanTree(p.Mark)
	case t == nil:
		t = &descendants{reaper: s.reaper, table: p.Isolation.Layers.Signals == isolation.ByPIDNamespace}
	}
	if s.reaper == nil {
		return t
	}
	return &reapedTree{tree: t, reaper: s.reaper}
}

// Trace returns what KillLeft has to know of the command of a plan if this process is killed. It is one line, which is
// empty without cgroups.
func (s *System) Trace(p *Plan) string {
	switch {
	case s.cgroups == nil:
		return ""
	case p.Isolation.Layers.Cgroups == isolation.ReadOnly:
		return s.cgroups.dir + sealedMark
	}
	return s.cgroups.dir
}

// KillOrphans continues to kill what a command has left, in a process that adopts orphans, until nothing is left or
// enough reports true.
func (s *System) KillOrphans(enough func() bool) {
	t := descendants{reaper: s.reaper}
	for !enough() && s.reaper.forget() {
		t.kill()
		time.Sleep(killPatience)
	}
}
