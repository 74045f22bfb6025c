package spawn

import (
	"fmt"
	"slices"
	"strings"
)

// InvalidName returns what is wrong with the names of variables that a command inherits, or "" if nothing is: a name
// with a value would pass nothing.
func InvalidName(names []string) string {
	at := slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, "=") })
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("%s: it takes the name of a variable, without a value", names[at])
}
