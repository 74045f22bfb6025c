package isolation

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"reprise/internal/wire"
)

// Level is a named set of layers. Each level has the layers of those before it.
type Level string

// The levels.
const (
	// None starts a command as the user of the server may.
	None Level = "none"
	// Limits denies a command further privileges and access to hidden paths; ordinary builds are not affected.
	Limits Level = "limits"
	// Landlock lets a command write only below named roots.
	Landlock Level = "landlock"
	// Bubblewrap also hides other processes, and gives a command its own devices. It is named after a program that does
	// the same, which is not needed.
	Bubblewrap Level = "bubblewrap"
)

// Levels returns all levels, the weakest first.
func Levels() []Level { return []Level{None, Limits, Landlock, Bubblewrap} }

// ParseLevel returns the level with a name. The empty name is returned unchanged.
func ParseLevel(name string) (Level, error) {
	if name == "" || slices.Contains(Levels(), Level(name)) {
		return Level(name), nil
	}
	return "", fmt.Errorf("%q is not a level; there are %s", name, levelNames())
}

func levelNames() string {
	var names []string
	for _, l := range Levels() {
		names = append(names, string(l))
	}
	return strings.Join(names, ", ")
}

// The values of the members of Layers that name a means.
const (
	ByMounts       = "mounts"
	ByLandlock     = "landlock"
	ByUser         = "user"
	ByPIDNamespace = "pid_namespace"
	ByDirectory    = "directory"
	// ReadOnly, ReducedSet, EmptySet, DenyList and Off describe the remaining access.
	ReadOnly   = "read_only"
	ReducedSet = "reduced"
	EmptySet   = "none"
	DenyList   = "deny_list"
	Off        = "off"
)

// Layers are the layers of isolation that a command gets.
type Layers = wire.Layers

// Access is the part of a request beside its level.
type Access struct {
	// Offline: no network but a loopback of its own.
	Offline bool `json:"offline,omitempty"`
	// Writable are directories below which the command may write at the levels Landlock and Bubblewrap, beside its
	// working directory and the temporary one. They are absolute and exist.
	Writable []string `json:"writable,omitempty"`
	// Readable are files and directories that the command may read at the levels Landlock and Bubblewrap, beside the
	// system's and the writable ones. They are absolute and exist.
	Readable []string `json:"readable,omitempty"`
	// Hidden are absolute paths that the command does not get at.
	Hidden []string `json:"hidden,omitempty"`
	// Dir is the absolute path of the working directory.
	Dir string `json:"dir,omitempty"`
}

func (a *Access) empty() bool {
	return !a.Offline && len(a.Writable) == 0 && len(a.Readable) == 0 && len(a.Hidden) == 0
}

// Config is the configuration of a server for the isolation of all its commands.
type Config struct {
	// Level is the level of requests that name none. Default: Limits if the machine supports it. Otherwise it is None
	// with those layers of Limits that the machine supports, unless Least is stronger.
	Level Level
	// Least, if set, is the weakest level at which a command runs. A request that names a weaker level is refused; one
	// that names no level gets Least if Level is weaker.
	Least Level
	// Masks are out of reach at every level but None, whatever a request says. They protect the secrets of the server.
	Masks *Masks
	// Offline takes the network from all commands.
	Offline bool
	// Directories are open to all commands, beside the directories of requests.
	Directories
	// Tenants are open to the commands of single tenants in addition.
	Tenants map[string]Directories
	// Confined: commands work in the writable Directories alone. The working directory and the writable directories of
	// a request lie in them, and its readable ones in any of Directories, whatever their names lead to when the command
	// is started.
	Confined bool
	// User is the user of all commands; only root can switch to another user. Default: our own user.
	User *User
	// Users are the users of the commands of single tenants, in place of User.
	Users map[string]*User
	// Range gives tenants without one of Users a user of their own.
	Range *UserRange
	// SharedUser: the operator accepts that commands of different tenants run as one user.
	SharedUser bool
	// Machine describes the machine that runs the commands. Default: Probe.
	Machine *Machine
}

// RefusedError says why a level cannot be given.
type RefusedError struct{ Level, Reason string }

func (e *RefusedError) Error() string { return fmt.Sprintf("the level %q %s", e.Level, e.Reason) }

// Plan is how one command is started. It holds nothing open, and can be sent as JSON to the process that starts it.
type Plan struct {
	Level  Level  `json:"level"`
	Layers Layers `json:"layers,omitzero"`
	// Access is the access of the command.
	Access Access `json:"access,omitzero"`
	// Server are the Directories of the Config.
	Server Directories `json:"server,omitzero"`
	// Masks are what the command does not reach: the masks of the server, and the hidden paths of Access.
	Masks []Mask `json:"masks,omitempty"`
	// Roots are the directories in which a confined command works, and Readable those that it may read in addition.
	Roots    []Mask `json:"roots,omitempty"`
	Readable []Mask `json:"readable,omitempty"`
	// Visible are directories below a hidden one that the command reads all the same.
	Visible []string `json:"visible,omitempty"`
	// Own are directories in place of which the command gets empty ones of its own: the temporary ones and its home.
	Own []string `json:"own,omitempty"`
	// Private is an empty directory for temporary files that was made for this command, if Layers.Temporary is
	// ByDirectory.
	Private string `json:"private,omitempty"`
	// Temporary bounds the bytes in the temporary directories that are the command's own, and those in its /dev/shm, if
	// Layers.Temporary is ByMounts. 0 is the bound of the kernel, half of the memory of the machine.
	Temporary int64 `json:"temporary,omitempty"`
	User      *User `json:"user,omitempty"`
	Given     Given `json:"given,omitzero"`

	machine *Machine // while it is resolved
	self    bool     // this very program is started
}

// Resolve returns the plan for a request with a level, "" for the default, and access. The error is a *RefusedError if
// the machine, or c, does not permit the request.
func (c *Config) Resolve(level Level, want Access) (*Plan, error) {
	p := &Plan{User: c.User, Server: c.Directories, Own: c.own(), machine: c.Machine}
	if p.machine == nil {
		p.machine = Probe()
	}
	p.Given = p.machine.Given
	p.Access = Access{
		Offline:  want.Offline || c.Offline,
		Writable: want.Writable,
		Readable: want.Readable,
		Hidden:   want.Hidden,
		Dir:      want.Dir,
	}
	var err error
	if p.Masks, err = c.Masks.Current(); err != nil {
		return nil, err
	}
	var open bool
	if p.Level, open, err = c.level(level); err != nil {
		return nil, err
	}
	if open && p.lacks() != "" {
		p.Level = None
		p.common()
	}
	if reason := p.lacks(); reason != "" {
		return nil, &RefusedError{string(p.Level), reason}
	}
	if p.Level == None && !want.empty() {
		return nil, &RefusedError{string(None), "gives no access of its own: ask for a stronger one"}
	}
	if err := errors.Join(p.confine(c, &want), p.hide(want.Hidden)); err != nil {
		return nil, err
	}
	if err := p.hideSystem(); err != nil {
		return nil, err
	}
	p.layer()
	return p, nil
}

// level returns the level for a request that asks for one, "" for none. open reports whether it is None if the machine
// does not support the level.
func (c *Config) level(asked Level) (level Level, open bool, err error) {
	if level = asked; level == "" {
		level = c.Level
	}
	if level == "" {
		level, open = Limits, true
	}
	if !level.weaker(c.Least) {
		return level, open && !None.weaker(c.Least), nil
	}
	if asked != "" {
		return "", false, &RefusedError{
			string(asked), fmt.Sprintf("is weaker than %q, which this server asks for at least", c.Least),
		}
	}
	return c.Least, false, nil
}

// weaker reports whether l has fewer layers than other. The level "" has none.
func (l Level) weaker(other Level) bool {
	return slices.Index(Levels(), l) < slices.Index(Levels(), other)
}

// confine checks that what a request opens is neither the root nor what the kernel shows, and lies within the roots if
// the command is confined.
func (p *Plan) confine(c *Config, want *Access) error {
	opened := slices.Concat(want.Writable, want.Readable)
	for _, path := range opened {
		real := p.existing(path)
		if real == "/" || within(real, "/proc") || within(real, "/sys") {
			return &RefusedError{string(p.Level), fmt.Sprintf("cannot open %s: name the directories in it", path)}
		}
	}
	if !c.Confined {
		return nil
	}
	if len(c.Writable) == 0 {
		return &RefusedError{string(p.Level), "needs a directory in which commands work, and this tenant has none"}
	}
	for _, of := range []struct {
		masks *[]Mask
		paths []string
	}{{&p.Roots, c.Writable}, {&p.Readable, c.Readable}} {
		for _, path := range of.paths {
			m, err := maskAt(path)
			if err != nil {
				return err
			}
			*of.masks = append(*of.masks, m)
		}
	}
	in := func(path string, roots ...Mask) bool {
		real := p.existing(path)
		return slices.ContainsFunc(roots, func(root Mask) bool { return within(real, root.Path) })
	}
	paths := want.Writable
	if want.Dir != "" {
		paths = append(slices.Clone(paths), want.Dir)
	}
	for _, path := range paths {
		if !in(path, p.Roots...) {
			return &RefusedError{string(p.Level), fmt.Sprintf("lets commands work in %s, and %s is elsewhere",
				strings.Join(c.Writable, ", "), path)}
		}
	}
	for _, path := range want.Readable {
		if !in(path, slices.Concat(p.Roots, p.Readable)...) {
			return &RefusedError{string(p.Level), fmt.Sprintf("lets commands read in %s, and %s is elsewhere",
				strings.Join(slices.Concat(c.Writable, c.Readable), ", "), path)}
		}
	}
	return nil
}

// existing is existing with the rights of the command's user: where a link leads that the user cannot follow is not
// told.
func (p *Plan) existing(path string) (real string) {
	_ = p.User.As(func() error { // without a path, nothing is allowed
		real = existing(path)
		return nil
	})
	return real
}

// existing resolves the symbolic links of a path, whose end need not exist.
func existing(path string) string {
	rest := ""
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil || dir == filepath.Dir(dir) {
			return filepath.Join(real, rest)
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// kernelFiles are file systems that a request cannot hide: they are how a command is isolated.
var kernelFiles = []string{"/proc", "/sys", "/dev"}

// hide adds the hidden paths of a request to the masks of the server. None may be above one of the server's masks,
// which it would replace.
func (p *Plan) hide(paths []string) error {
	server := p.Masks
	for _, path := range paths {
		var m Mask
		err := p.User.As(func() (err error) {
			m, err = maskAt(path)
			return err
		})
		if err != nil {
			return &RefusedError{string(p.Level), fmt.Sprintf("cannot hide %s: %v", path, err)}
		}
		above := m.Path == "/" || slices.ContainsFunc(server, func(s Mask) bool {
			return s.Path != m.Path && within(s.Path, m.Path)
		})
		if above || slices.ContainsFunc(kernelFiles, func(dir string) bool { return within(m.Path, dir) }) {
			return &RefusedError{string(p.Level), fmt.Sprintf("cannot hide %s, which every command needs", path)}
		}
		p.Masks = append(p.Masks, m)
	}
	return nil
}

// lacks returns the feature of the level that the machine does not support, or "".
func (p *Plan) lacks() string {
	m := p.machine
	if p.User != nil && m.SwitchUser != nil {
		return fmt.Sprintf("needs root to run commands as %s: %v", p.User.Name, m.SwitchUser)
	}
	if p.Level == None {
		return ""
	}
	if m.Start != nil {
		return m.Start.Error()
	}
	switch {
	case m.Capabilities != nil:
		return fmt.Sprintf("needs capabilities to be dropped: %v", m.Capabilities)
	case p.Access.Offline && m.Network != nil:
		return fmt.Sprintf("with the network off needs a network namespace: %v", m.Network)
	}
	switch p.Level {
	case Limits:
		_, reason := p.hiding()
		return reason
	case Landlock:
		return p.lacksLandlock()
	case Bubblewrap:
		if err := m.LacksProcesses(); err != nil {
			return fmt.Sprintf("needs mounts and a process table of its own: %v", err)
		}
	}
	return ""
}

// hiding returns the layer that masks files at the level Limits, or the reason why there is none. Without mounts, the
// rights of another user hide what that user has no rights to, and rules of Landlock hide the rest.
func (p *Plan) hiding() (layer, reason string) {
	m := p.machine
	if m.Mounts == nil {
		return ByMounts, ""
	}
	if p.User != nil && p.User.UID != 0 && !slices.ContainsFunc(p.Masks, p.masked) {
		return ByUser, ""
	}
	if m.Landlock >= landlockNeeded {
		return ByLandlock, ""
	}
	return "", fmt.Sprintf("needs a mount namespace (%v) or Landlock of version %d that hides the data directory",
		m.Mounts, landlockNeeded)
}

// masked reports whether the user of the command has rights to a mask.
func (p *Plan) masked(m Mask) bool { return p.User.reads(m.Path) }

// isRoot reports whether the command is root.
func (p *Plan) isRoot() bool { return p.Given.Root && (p.User == nil || p.User.UID == 0) }

// landlockNeeded is the version of Landlock that binds truncation, without which any file could be emptied.
const landlockNeeded = 3

func (p *Plan) lacksLandlock() string {
	m := p.machine
	if m.Landlock < landlockNeeded {
		return fmt.Sprintf("needs Landlock of version %d, and this kernel has version %d", landlockNeeded, m.Landlock)
	}
	if m.Mounts == nil {
		return ""
	}
	for _, root := range slices.Concat(p.Server.Writable, p.Access.Writable) {
		for _, mask := range p.Masks {
			if within(mask.Path, root) {
				return fmt.Sprintf("cannot hide %s below %s, which is to be writable: %v", mask.Path, root, m.Mounts)
			}
		}
	}
	return ""
}

// within reports whether path is root or below it.
func within(path, root string) bool {
	relative, err := filepath.Rel(root, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, "../")
}

// layer sets the layers of the level, which the machine supports.
func (p *Plan) layer() {
	m := p.machine
	if p.User != nil {
		p.Layers.User = p.User.Name
	}
	if p.Level == None {
		return
	}
	p.common()
	if p.Access.Offline {
		p.Layers.Network = Off
	}
	switch p.Level {
	case Bubblewrap:
		p.Layers.Hidden, p.Layers.Writable, p.Layers.Cgroups = ByMounts, ByMounts, ReadOnly
		p.Layers.Signals, p.Layers.Capabilities = ByPIDNamespace, EmptySet
		p.Layers.Readable, p.Layers.Temporary = ByMounts, ByMounts
		return
	case Landlock:
		p.Layers.Writable, p.Layers.Hidden = ByLandlock, ByLandlock
		p.Layers.Readable, p.Layers.Temporary = ByLandlock, ByDirectory
		if m.Mounts == nil {
			p.Layers.Hidden = ByMounts
		}
		if m.lacksViews() == nil {
			p.Layers.Readable, p.Layers.Temporary = ByMounts, ByMounts
		}
	default:
		p.Layers.Hidden, _ = p.hiding()
	}
	if p.Layers.Hidden != ByUser {
		p.Layers.Cgroups = ReadOnly
	}
}

// common sets the layers that need nothing but the kernel.
func (p *Plan) common() {
	m := p.machine
	if m.Start != nil {
		return
	}
	p.Layers.NoNewPrivileges = true
	if m.Capabilities == nil {
		p.Layers.Capabilities = EmptySet
		if m.Root && (p.User == nil || p.User.UID == 0) {
			p.Layers.Capabilities = ReducedSet
		}
	}
	if m.Landlock >= landlockScopes {
		p.Layers.Signals = ByLandlock
	}
	if m.SystemCalls == nil {
		p.Layers.SystemCalls = DenyList
	}
}

// landlockScopes is the version of Landlock that keeps signals within a domain.
const landlockScopes = 6
