package stream

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Every kind of request has a name of its own, and those that mean several steps have one for each.
func TestStepNames(t *testing.T) {
	kinds := map[string]bool{}
	names := map[string]bool{}
	for _, e := range []task.Effect{
		task.Heartbeat{}, task.Acquire{}, task.Load{}, task.LookUp{}, task.Due{}, task.KnownIDs{}, task.Checkpoint{}, task.Probe{},
		task.InitProducer{Producer: task.Producer{ID: -1, Epoch: -1}}, task.InitProducer{}, task.AddPartition{}, task.Retire{}, task.AbortTxn{},
		task.Describe{}, task.Committed{}, task.Fetch{}, task.Fetch{Topic: event.Rankings}, task.Produce{}, task.Produce{DeadLetters: true},
		task.Commit{},
	} {
		kinds[reflect.TypeOf(e).Name()] = true
		name := stepName(e)
		require.NotEqual(t, "unknown", name, "%T", e)
		require.NotContains(t, names, name)
		names[name] = true
	}
	// The shell has a method for each kind of request.
	shell := reflect.TypeFor[task.Shell]()
	for i := range shell.NumMethod() {
		require.Contains(t, kinds, shell.Method(i).Name)
	}
	require.Len(t, kinds, shell.NumMethod())
}
