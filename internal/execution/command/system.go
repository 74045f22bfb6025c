package command

import (
	"log/slog"

	"reprise/internal/spawn"
)

// System is what the commands of a process are started with.
type System struct {
	Spawner *spawn.Spawner
	// Logger, if not nil, is for what is done in another way than it should be.
	Logger *slog.Logger

	cgroups *cgroups // nil without cgroups
	// reaper is set in a process that has one command at a time, and adopts its orphans.
	reaper *reaper
}

// UseCgroups makes commands get cgroups of their own, which make killing a whole tree certain. The error says why that
// is not possible; their processes are then found in another way.
func (s *System) UseCgroups() (err error) {
	s.cgroups, err = openCgroups(s.Spawner)
	return err
}

// Close ends what is left of the commands in cgroups. It does not close the Spawner.
func (s *System) Close() {
	if s.cgroups != nil {
		s.cgroups.close()
	}
}

// ProbeCgroups tries whether commands can have cgroups of their own here. The error says why not.
func ProbeCgroups() error {
	s := System{Spawner: spawn.New()}
	defer s.Spawner.Close()
	defer s.Close()
	return s.UseCgroups()
}

// CheckSignal returns an error unless name is the name of a signal, such as "INT" or "SIGINT".
func CheckSignal(name string) error {
	_, err := parseSignal(name)
	return err
}
