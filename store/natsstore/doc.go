// Package natsstore keeps streams in NATS JetStream: the store for programs that have a NATS server, or a cluster
// of them, already. Any number of replicas may share it.
//
// What was acknowledged is kept to the level of the server: JetStream acknowledges a message when a majority of its
// replicas have it, and syncs files every two minutes unless its configuration says "sync_interval: always". How
// things lie there, and what that means, is told in docs/storage-nats.md.
package natsstore
