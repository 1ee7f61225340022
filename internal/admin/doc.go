// Package admin executes the state commands: inspect, base, export, import, warm, reset, rebuild, reshard,
// skip. Tool has a method for each; package main calls them. It loads the state with the workers' code.
//
// Changes are safe. A command refuses while the group has live members. If a worker joins nevertheless, the two are separated like two
// workers. Each partition is taken over with a new token (state.Store.Acquire). All changes go into one checkpoint from the (token,
// sequence) that was read, and the loser's checkpoint is refused. A failed command leaves each partition unchanged or done, says which, and
// can be repeated. History records each change, in fields "history.<number>" of the hash meta.
package admin
