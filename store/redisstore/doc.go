// Package redisstore keeps streams in Redis (7.0 or newer, or Valkey): alone, with Sentinel, or as a Redis Cluster. Any
// number of replicas of a program may share it.
//
// What was acknowledged is as safe as the server is told to keep it: on its disk with appendfsync always, in its
// memory otherwise, and in that of N replicas with the parameter wait=N. After a restart or a failover that may have
// taken back events, a stream goes on under another epoch, so that a seq that is given again is not taken for the old
// one. How things lie in Redis, and what is promised when, is told in docs/storage-redis.md.
package redisstore
