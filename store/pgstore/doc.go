// Package pgstore keeps streams in PostgreSQL. Any number of replicas may share the store.
//
// An append is acknowledged when its transaction has committed, so its durability depends on the server's
// synchronous_commit.
// Replicas wake each other with NOTIFY. docs/internals/storage-postgres.md describes the tables,
// what happens when the server is lost, and the parameters of the URL.
package pgstore
