// Package sqlitestore keeps streams in a SQLite file. It needs nothing but a disk. It uses SQLite translated to Go, so
// the build needs no C compiler.
//
// Acknowledged events are on the disk: each commit ends with an fsync (see Sync). Only one process at a time can use
// the file. docs/internals/storage-sqlite.md describes the file, and why a crash at any moment leaves it consistent.
package sqlitestore
