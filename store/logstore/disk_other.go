//go:build !linux

package logstore

import "os"

func syncData(f *os.File) error { return f.Sync() }
