// Package archive stores ended streams in files, so that they can be read after the store has swept them.
//
// A Store of this package is a folder or (package s3archive) a bucket of such files, as a reprise.Store that can be
// read but not written. A Sink accepts streams: a Store of this package, or a topic (package kafkaarchive). An Archiver
// copies streams that are about to expire from a live store to a Sink. A Keeper wraps a live store and does so
// automatically: no stream is swept before it is archived, and swept streams are read from the archive.
package archive
