// Package sqlitestore keeps streams in a SQLite file: the store that needs nothing
// but a disk. It uses SQLite translated to Go, so there is no C in the build.
//
// What was acknowledged is on the disk: each commit ends with an fsync (see Sync). One
// process at a time has the file. How things lie in it, and why a crash at any moment
// leaves it whole, is told in docs/storage-sqlite.md.
package sqlitestore
