//go:build !linux || !(amd64 || arm64)

package isolation

import "os"

func probe() *Machine {
	return &Machine{
		Start: errNotLinux, Mounts: errNotLinux, Network: errNotLinux, SystemCalls: errNotLinux,
		Capabilities: errNotLinux, SwitchUser: errNotLinux, NoBubblewrap: errNotLinux,
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

// Undumpable does nothing.
func Undumpable() error { return errNotLinux }

// hiddenRoots are the paths themselves.
func hiddenRoots(paths []string) []string { return paths }

// reads is not known here.
func (*User) reads(string) bool { return true }

func tryBubblewrap(string) error { return errNotLinux }
