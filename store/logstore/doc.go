// Package logstore keeps streams in a directory of append-only files: an embedded store that writes each event once.
// It is experimental; package sqlitestore is the default.
//
// What was acknowledged is on the disk: each commit is one write and one fdatasync for all calls that wait. One
// process at a time has the directory. The state of all streams and the places of their batches are kept in memory,
// the batches on the disk. docs/storage-log.md draws the files, and says why a crash at any moment leaves them whole.
package logstore
