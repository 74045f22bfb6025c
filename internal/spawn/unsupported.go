//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package spawn

// Spawner starts nothing here.
type Spawner struct{}

// New makes a Spawner.
func New() *Spawner { return &Spawner{} }

// Close does nothing.
func (*Spawner) Close() {}
