// Package files gives access to directories of the server that its operator has named: the roots.
//
//	roots, err := files.Open(map[string]string{"site": "/srv/site"}, nil)
//	page, err := roots.List("site/src", 100, "")
//
// A path begins with the name of a root: "site/src/main.go" is /srv/site/src/main.go. Everything goes through os.Root,
// so that neither ".." nor a symbolic link leads out of a root, whoever changes the directory meanwhile. Paths are
// bytes; a segment has at most 255 of them.
//
// What this package promises:
//
//   - A file that is uploaded appears under its name whole, or not at all: bytes are collected in a directory of their
//     own, and moved when all are there and have the stated checksum.
//   - An upload that was cut off goes on at the byte that it has reached, also after a restart of the server. It is
//     found by its path, size and checksum; there is no state that a client could lose.
//   - A file that is read is one version of it: each read is compared with the file as it was at the start, and fails
//     with ErrChanged when it is another one.
//   - A watch is a stream of events, with cursors like all streams. What changes while nobody looks, or while the
//     server is away, is told as the difference.
//
// The files are those of the user that the server runs as.
package files
