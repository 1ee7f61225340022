// Package redisstore implements state.Store in Redis 7 or later, Redis Cluster, and compatible servers with Lua scripts.
//
// # Keys
//
// All keys of partition 3 of group "ranker" begin with the hash tag {ranker:3}, hence lie in one slot.
//
//	{ranker:3}:meta         hash: the cut, field by field; partition's own fields beside it
//	{ranker:3}:<name>       hash: one that the partition names, such as feed:items
//	{ranker:3}:p:<page>     hash: an id's 16 bytes -> record; a page's records lie in one bucket of event time
//	{ranker:3}:pages        sorted set: the pages' numbers, by their bucket
//	{ranker:3}:deltas       stream: the published writes of each checkpoint, entry id <seq>-0, bounded by MAXLEN
//	{ranker:workers}        hash: worker's id -> its announcement, see state.WorkerInfo
//	{ranker:ready}:write    string with an expiry of a minute: the trial write of Ready
//
// # Settings of the server
//
// maxmemory-policy must be noeviction, since an evicted key is lost state. Ready fails otherwise.
//
// Raise hash-max-listpack-value to about 512 (default: 64). Pages of longer records then keep Redis's compact encoding, which saves some 50
// bytes a record. hash-max-listpack-entries must be at least 128, its default.
//
// An ACL user needs the keys ~{<group>:* and the commands @hash @set @sortedset @stream @string @scripting @transaction, INFO, EXISTS, DEL,
// WAIT and TIME, and for a cluster CLUSTER and ASKING. Without TIME only state.Registry fails.
package redisstore
