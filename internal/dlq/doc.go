// Package dlq reads the group's dead letters, says what may be wrong with one, and sends them again. It takes part in no group
// and stores nothing: what was sent again says so itself, in a header.
package dlq
