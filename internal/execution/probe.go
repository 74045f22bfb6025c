package execution

import (
	"fmt"
	"os"

	"reprise"
)

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
