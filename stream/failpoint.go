package stream

import (
	"github.com/ranker-worker/ranker-worker/internal/failpoint"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// hitFailpoint hits a failpoint before or after a request. It costs nothing without the build tag.
func hitFailpoint(when string, e task.Effect) {
	if failpoint.Enabled {
		failpoint.Hit(when + " " + stepName(e))
	}
}

// stepName returns a request's name for failpoints.
func stepName(e task.Effect) string {
	switch e := e.(type) {
	case task.Heartbeat:
		return "heartbeat"
	case task.Acquire:
		return "acquire"
	case task.Load:
		return "load"
	case task.LookUp:
		return "look-up"
	case task.Due:
		return "due"
	case task.KnownIDs:
		return "known-ids"
	case task.Checkpoint:
		return "checkpoint"
	case task.Probe:
		return "probe"
	case task.InitProducer:
		if e.Producer.ID >= 0 {
			return "init-producer-again"
		}
		return "init-producer"
	case task.AddPartition:
		return "add-partition"
	case task.Retire:
		return "retire"
	case task.AbortTxn:
		return "abort-txn"
	case task.Describe:
		return "describe"
	case task.Committed:
		return "committed"
	case task.Fetch:
		if e.Topic == event.Rankings {
			return "replay" // only a replay reads rankings, apart from the scan of a fresh group
		}
		return "fetch"
	case task.Produce:
		if e.DeadLetters {
			return "dead-letters"
		}
		return "produce"
	case task.Commit:
		return "commit"
	}
	return "unknown"
}
