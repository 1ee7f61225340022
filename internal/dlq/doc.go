// Package dlq reads the group's dead letters, gives hints on their causes, and sends them again. It joins no group and stores nothing: a
// header marks records that were sent again.
package dlq
