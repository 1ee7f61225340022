// Package redisstore implements state.AdminStore, Follower and Registry in Redis 7 or later, Redis Cluster, and compatible servers with Lua
// scripts. Package internal/app makes the Store for workers and commands. New does not connect. A partition's keys lie in one slot;
// metaKey's comment lists them. One script writes a checkpoint. It fails with state.ErrFenced if the partition has a later owner or
// checkpoint. After an error with unknown outcome, the caller sends the same checkpoint again.
//
// maxmemory-policy must be noeviction, since an evicted key is lost state. Ready fails otherwise. Raise hash-max-listpack-value to about
// 512 (default: 64). Pages of longer records then keep Redis's compact encoding, which saves some 50 bytes a record.
// hash-max-listpack-entries must be at least 128, its default.
//
// An ACL user needs the keys ~{<group>:* and the commands @hash @set @sortedset @stream @string @scripting @transaction, INFO, EXISTS, DEL,
// WAIT and TIME, and for a cluster CLUSTER and ASKING. Without TIME only state.Registry fails.
package redisstore
