// Package state says what is stored of a partition, and how: the checkpoint of the log that Kafka is. It knows
// bytes and offsets, not policies. Implementations live in its sub-packages; all pass the suite in statetest.
//
// Everything of partition p of group g lives under keys that begin with "{g:p}:", hence in one Redis slot.
package state
