//go:build !linux

package driver

import "os"

// Allocate extends f to size.
func Allocate(f *os.File, size int64) error { return f.Truncate(size) }
