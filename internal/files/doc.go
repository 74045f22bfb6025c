// Package files gives access to directories of the server that its operator has named: the roots.
//
//	roots, err := files.Open(map[string]string{"site": "/srv/site"}, nil)
//	page, err := roots.List("site/src", 100, "")
//
// A path begins with the name of a root: "site/src/main.go" is /srv/site/src/main.go. All access goes through os.Root,
// so neither ".." nor a symbolic link leads out of a root, even if the directory changes meanwhile. Paths are bytes; a
// segment has at most 255 of them.
//
// The package guarantees:
//
//   - An uploaded file appears under its name completely or not at all: its bytes are collected in a separate
//     directory and moved when all are present and have the stated checksum.
//   - An interrupted upload continues at the byte that it has reached, also after a restart of the server. It is
//     identified by its path, size and checksum, so a client has no state to lose.
//   - A file that is read is one version of it: each read compares the file with its state at the start, and fails
//     with ErrChanged if it differs.
//   - A watch is a stream of events, with cursors like all streams. Changes without a reader, or while the server is
//     down, are reported as the difference.
//
// The files belong to the user that the server runs as.
package files
