// Package logstore keeps streams in a directory of append-only files. It is an embedded store that writes each event
// once, and the default of the server.
//
// Acknowledged events are on the disk: each commit is one write and one fdatasync for all waiting calls. Only one
// process at a time can use the directory. The states of all streams are in memory, their batches and the places of
// these on the disk. docs/internals/storage-log.md shows the file formats and explains why a crash at any moment leaves
// the files consistent.
package logstore
