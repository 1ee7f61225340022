// Package redisstore keeps partitions' state in Redis 7 or later, also Redis Cluster and servers that speak its
// protocol and run its Lua scripts.
//
// # Keys
//
// All keys of partition 3 of group "ranker" begin with the hash tag {ranker:3}, hence lie in one slot.
//
//	{ranker:3}:meta         hash: the cut, field by field; partition's own fields beside it
//	{ranker:3}:<name>       hash: what the partition calls <name>, such as feed:items
//	{ranker:3}:p:<page>     hash: an id's 16 bytes -> record; a page's records lie in one bucket of event time
//	{ranker:3}:pages        sorted set: the pages' numbers, by their bucket
//	{ranker:3}:deltas       stream: what each checkpoint published, entry id <seq>-0, bounded by MAXLEN
//	{ranker:workers}        hash: worker's id -> what it says of its configuration, see state.WorkerInfo
//	{ranker:ready}:write    string with an expiry of a minute: the trial write of Ready
//
// # Settings of the server
//
// maxmemory-policy has to be noeviction: an evicted key is lost state. Ready says so where it is not.
//
// hash-max-listpack-value should be raised to about 512 (its default is 64), so that pages keep Redis's compact
// encoding where records are longer than that, too, which costs some 50 bytes less each. hash-max-listpack-entries has to be at least
// 128, which is its default.
//
// An ACL user needs the keys ~{<group>:* and the commands @hash @set @sortedset @stream @string @scripting
// @transaction, and INFO, EXISTS, DEL, WAIT and TIME (and, for a cluster, CLUSTER and ASKING). Without TIME only
// state.Registry fails.
package redisstore
