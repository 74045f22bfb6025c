package contexts

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// maxToken is larger than any token.
const maxToken = 64 << 10

// ReadToken reads the token from stdin, which a terminal does not show.
func ReadToken(terminal bool) (string, error) {
	var text []byte
	var err error
	if terminal {
		fmt.Fprint(os.Stderr, "Token: ")
		text, err = term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(os.Stderr)
	} else {
		text, err = io.ReadAll(io.LimitReader(os.Stdin, maxToken))
	}
	return strings.TrimSpace(string(text)), err
}
