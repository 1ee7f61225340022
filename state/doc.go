// Package state defines the interfaces to the store of partitions' state, and the types that pass through them. A stored state is a
// checkpoint: it holds the topic offsets up to which records have been processed, and all that the partition's learners have learned. The
// package handles bytes and offsets and knows no policies. Workers use Store, read other partitions by Follower, and find each other by
// Registry; the state commands use AdminStore. memstore and redisstore implement the
// interfaces; both pass the suite in statetest.
//
// All keys of partition p of group g begin with "{g:p}:", so they lie in one slot of a Redis Cluster.
package state
