//go:build !linux || !(amd64 || arm64)

package isolation

import "os"

func probe() *Machine {
	return &Machine{
		Start: errNotLinux, Mounts: errNotLinux, Network: errNotLinux, SystemCalls: errNotLinux,
		Capabilities: errNotLinux, SwitchUser: errNotLinux,
	}
}

// Start starts a process without any layer.
func (*Plan) Start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return os.StartProcess(path, argv, attr)
}

// StartAlone is Start.
func (p *Plan) StartAlone(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return p.Start(path, argv, attr)
}

// StartSelf starts this program.
func (p *Plan) StartSelf(_ string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return p.Start("/proc/self/exe", argv, attr)
}

// Undumpable does nothing.
func Undumpable() error { return errNotLinux }

// reads and writes are not known here.
func (*User) reads(string) bool  { return true }
func (*User) writes(string) bool { return true }

// Masks are paths of the server. Nothing hides them here.
type Masks struct{ paths []string }

// OpenMasks holds nothing open.
func OpenMasks(paths ...string) (*Masks, error) { return &Masks{paths}, nil }

// Paths returns the paths.
func (m *Masks) Paths() []string {
	if m == nil {
		return nil
	}
	return m.paths
}

// Current returns nothing.
func (*Masks) Current() ([]Mask, error) { return nil, nil }

func maskAt(string) (Mask, error) { return Mask{}, errNotLinux }

// As calls f. No command runs as another user here.
func (u *User) As(f func() error) error { return f() }
