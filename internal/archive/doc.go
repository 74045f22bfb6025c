// Package archive keeps streams that have ended in files, so that they can be read after
// the store has swept them.
//
// A Store of this package is a place of such files, a folder or (package s3archive) a bucket, seen as a
// reprise.Store that can be read but not written. A Sink takes streams: a Store of this
// package, or a topic (package kafkaarchive). An Archiver takes what is about to expire from a
// live store to a Sink, and a Keeper is a live store around which that happens by itself:
// no stream is swept from it before it is archived, and what was swept is read from the archive.
package archive
