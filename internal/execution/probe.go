package execution

import (
	"fmt"
	"os"

	"reprise"
	"reprise/internal/spawn"
)

// ProbeCgroups tries whether commands can have cgroups of their own here, which make
// killing a whole tree certain. The error says why not; their processes are then found in /proc.
func ProbeCgroups() error {
	s := spawn.New()
	defer s.Close()
	c, err := openCgroups(s)
	if err == nil {
		c.close()
	}
	return err
}

// ProbeInterpreter returns the program in our PATH that runs code in a language. The error is reprise.ErrInvalid for a
// language that is not one of Languages; any other error names the missing program.
func ProbeInterpreter(name string) (program string, err error) {
	l := languages[name]
	if l == nil {
		return "", fmt.Errorf("%w: unknown language %q", reprise.ErrInvalid, name)
	}
	argv, err := l.argv(nil, os.Getenv("PATH"), "")
	if err != nil {
		return "", err
	}
	return argv[0], nil
}
