//go:build !linux

package sqlitestore

import "os"

// lockData does nothing: on other systems a lock of a database would get into the way of SQLite's.
func lockData(*os.File) error { return nil }
