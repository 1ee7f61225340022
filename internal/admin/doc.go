// Package admin carries out the commands that look into a group's stored state and put it in order: inspect, export,
// import, reset, rebuild, reshard, skip. It reads the state by the code that workers load it with, and writes it through the
// fence that workers hold each other off with.
//
// # What makes changes safe
//
// A command that changes anything refuses while the group has live members. Should one join all the same, both are held
// apart as two workers are: each partition is taken over with a fresh token (state.Store.Acquire), all that is changed
// of it goes into one checkpoint from the (token, sequence) that was read, and the one that has lost the token has its
// checkpoint refused. A command that fails half-way leaves each partition as it was or done, says which, and can be
// given again.
//
// What was done stands in the partition's history: fields "history.<number>" of the hash meta, see History.
package admin
