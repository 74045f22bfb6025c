// Package natsstore keeps streams in NATS JetStream. It suits programs that already use a NATS server or cluster. Any
// number of replicas may share the store.
//
// The durability of acknowledged events depends on the server: JetStream acknowledges a message when a majority of its
// replicas have it. It syncs files every two minutes unless its configuration says "sync_interval: always".
// docs/internals/storage-nats.md describes the data in JetStream and the guarantees.
package natsstore
