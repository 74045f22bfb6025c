//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package spawn

// Spawner cannot start processes on this system.
type Spawner struct{}

// New returns a Spawner.
func New() *Spawner { return &Spawner{} }

// Close does nothing.
func (*Spawner) Close() {}
