package execution

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"reprise"
	"reprise/client"
	"reprise/internal/execution/command"
	"reprise/internal/isolation"
)

// Access restricts a command in addition to its level of isolation.
type Access = client.Access

const (
	networkOn  = "on"
	networkOff = "off"
)

func (r *Request) checkIsolation() error {
	if _, err := isolation.ParseLevel(r.Isolation); err != nil {
		return invalid("isolation", "%v", err)
	}
	if isolation.Level(r.Isolation) == isolation.None && onProcesses(&r.Limits) {
		return invalid("isolation", "limits on processes need the level %q", isolation.Limits)
	}
	if hasNUL(r.User) || len(r.User) > maxUser {
		return invalid("user", "a name has at most %d bytes", maxUser)
	}
	switch r.Access.Network {
	case "", networkOn, networkOff:
	default:
		return invalid("access.network", "%q is not %q or %q", r.Access.Network, networkOn, networkOff)
	}
	for field, paths := range map[string][]string{
		"access.writable": r.Access.Writable,
		"access.readable": r.Access.Readable,
		"access.hidden":   r.Access.Hidden,
	} {
		if len(paths) > maxAccess {
			return invalid(field, "at most %d are taken", maxAccess)
		}
		for _, p := range paths {
			if !path.IsAbs(p) || hasNUL(p) {
				return invalid(field, "%q is not an absolute path", p)
			}
		}
	}
	return nil
}

// maxUser bounds the name of a user in bytes.
const maxUser = 256

// maxAccess bounds the paths of a request.
const maxAccess = 32

// isolate returns how the command of a valid request of a tenant is isolated. The error is a *FieldError.
func (h *Host) isolate(tenant reprise.Tenant, req *Request) (*isolation.Plan, error) {
	config, err := h.opts.Isolation.For(string(tenant))
	if err != nil {
		return nil, invalid("isolation", "%v", err)
	}
	if req.User != "" {
		if err := config.CanSwitch(); err != nil {
			return nil, invalid("user", "the server must be root for that: %v", err)
		}
		var err error
		if config.User, err = isolation.LookupUser(req.User); err != nil {
			return nil, invalid("user", "%v", err)
		}
	}
	err = config.User.As(func() error { // which finds what the command would find, and reports no more
		for _, p := range slices.Concat(req.Access.Writable, req.Access.Readable, req.Access.Hidden) {
			if _, err := os.Stat(p); err != nil {
				return invalid("access", "%v", err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if req.Access.Network == networkOn && config.Offline {
		return nil, invalid("access.network", "this server has it off")
	}
	plan, err := config.Resolve(isolation.Level(req.Isolation), isolation.Access{
		Offline: req.Access.Network == networkOff, Writable: req.Access.Writable, Readable: req.Access.Readable,
		Hidden: req.Access.Hidden, Dir: h.cwd(tenant, req),
	})
	if refused, ok := errors.AsType[*isolation.RefusedError](err); ok {
		return nil, invalid("isolation", "%v", refused)
	}
	if err == nil {
		err = h.caps(tenant).heldAt(plan)
	}
	return plan, err
}

// cwd is where the command of a request of a tenant works.
func (h *Host) cwd(tenant reprise.Tenant, req *Request) string {
	c := &h.opts.Isolation
	if open := c.Open(string(tenant)); c.Confined && len(open.Writable) > 0 {
		return req.cwd(open.Writable[0])
	}
	return req.cwd(h.opts.Dir)
}

// codeDir returns the directory for files of code: dir, or another one if the user of the commands cannot access dir.
func codeDir(plan *isolation.Plan, dir string) string {
	switch {
	case plan.Private != "":
		return path.Dir(plan.Private)
	case plan.User != nil:
		return os.TempDir()
	}
	return dir
}

// makePrivate makes the temporary directory of a command that cannot have a file tree of its own. It returns the folder
// to remove after the command, "" if the plan needs none.
func makePrivate(plan *isolation.Plan) (folder string, err error) {
	if plan.Layers.Temporary != isolation.ByDirectory {
		return "", nil
	}
	if folder, err = os.MkdirTemp("", codeFolder+"*"); err != nil { // mode 0700
		return "", err
	}
	plan.Private = path.Join(folder, "tmp")
	if err = os.Mkdir(plan.Private, 0o700); err == nil && plan.User != nil {
		err = errors.Join(os.Chown(plan.Private, plan.User.UID, plan.User.GID),
			os.Chown(folder, plan.User.UID, plan.User.GID))
	}
	return folder, err
}

// privateEnviron returns our environment adapted to a command with a temporary directory of its own, which is also its
// home if nothing in its home is open to it.
func privateEnviron(plan *isolation.Plan, ours []string) []string {
	if plan.Private == "" {
		return ours
	}
	ours = append(ours[:len(ours):len(ours)], "TMPDIR="+plan.Private)
	if !plan.Opens(command.Variable(ours, "HOME")) {
		ours = slices.DeleteFunc(ours, func(entry string) bool { return strings.HasPrefix(entry, "HOME=") })
		ours = append(ours, "HOME="+plan.Private)
	}
	return ours
}

// show lets a command read the directory of its code, which may be inside a hidden one or belong to another user.
func show(plan *isolation.Plan, dir string) error {
	plan.Visible = append(plan.Visible, dir)
	u := plan.User
	if u == nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.Chown(path.Join(dir, e.Name()), u.UID, u.GID))
	}
	return errors.Join(err, os.Chown(dir, u.UID, u.GID))
}

// userEnviron returns our environment adapted to another user.
func userEnviron(u *isolation.User, ours []string) []string {
	if u == nil {
		return ours
	}
	theirs := slices.DeleteFunc(slices.Clone(ours), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"HOME", "USER", "LOGNAME", "SHELL"}, name)
	})
	return append(theirs, "HOME="+u.Home, "USER="+u.Name, "LOGNAME="+u.Name)
}
