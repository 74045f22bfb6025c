//go:build !linux

package logstore

import "os"

func syncData(f *os.File) error { return f.Sync() }

func reserve(f *os.File, size int64) error { return f.Truncate(size) }
