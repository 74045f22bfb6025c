//go:build !linux

package headless

// Run does nothing.
func Run() {}
