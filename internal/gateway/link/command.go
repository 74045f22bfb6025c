package link

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Command is a program that speaks MCP over its stdin and stdout.
type Command struct {
	// Args are the program and its arguments. The program is looked for in the PATH that it will have.
	Args []string
	// Dir is the working directory of the command. Default: that of this process.
	Dir string
	// Env are variables of the command in addition to those that it inherits from this process.
	Env map[string]string
	// PassEnv names variables that it inherits besides the usual ones.
	PassEnv []string
	// Mark identifies its processes; see KillMarked.
	Mark string
}

// inherited are the variables of this process's environment that every command gets, besides those that begin with LC_.
// All others, and the secrets among them, stay here.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

// defaultPath is the PATH of a command where this process has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// markName is the variable that marks all processes of an upstream, so that they can be found.
const markName = "REPRISE_GATEWAY"

// environ returns the environment of the command, given that of this process.
func (c *Command) environ(ours []string) []string {
	env := map[string]string{"PATH": defaultPath}
	for _, entry := range ours {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(inherited, name) || slices.Contains(c.PassEnv, name) || strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	maps.Copy(env, c.Env)
	env[markName] = c.Mark
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// Check returns an error if the program does not exist. It looks in the PATH of the command or, for a name with a
// slash, relative to Dir.
func (c *Command) Check() error {
	name := c.Args[0]
	if !strings.Contains(name, "/") {
		_, err := lookPath(name, c.environ(os.Environ()))
		return err
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.Dir, name)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s: %w", name, os.ErrPermission)
	}
	return nil
}

// lookPath finds the program called name in the PATH of environ. Relative entries of PATH are skipped: they would
// mean the directory of this process.
func lookPath(name string, environ []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: not found in PATH", name)
}
