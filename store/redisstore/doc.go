// Package redisstore keeps streams in Redis (7.0 or newer) or Valkey: a single server, Sentinel, or Redis Cluster. Any
// number of replicas of a program may share it.
//
// The durability of acknowledged events depends on the server's configuration. They are on its disk with appendfsync
// always, and in its memory otherwise. The parameter wait=N adds the memory of N replicas. A restart or a failover may
// lose acknowledged events. The stream then continues under another epoch, so that a seq that is assigned again cannot
// be confused with the old one. docs/internals/storage-redis.md describes the data in Redis and the guarantees.
package redisstore
