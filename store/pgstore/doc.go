// Package pgstore keeps streams in PostgreSQL: a store that any number of replicas share.
//
// An append is acknowledged when its transaction has committed, so what is acknowledged
// outlives what the server's synchronous_commit says. Replicas wake each other with
// NOTIFY. How things lie in the tables, what happens when the server is lost, and each parameter of the
// URL is told in docs/storage-postgres.md.
package pgstore
