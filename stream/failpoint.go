package stream

import (
	"fmt"
	"regexp"
	"strings"

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

// stepName returns a request's name for failpoints, its type's: look-up.
func stepName(e task.Effect) string {
	switch e := e.(type) {
	case task.InitProducer:
		if e.Producer.ID >= 0 {
			return "init-producer-again"
		}
	case task.Fetch:
		if e.Topic == event.Rankings {
			return "replay" // only a replay reads rankings, apart from the scan of a fresh group
		}
	case task.Produce:
		if e.DeadLetters {
			return "dead-letters"
		}
	}
	name := strings.TrimPrefix(fmt.Sprintf("%T", e), "task.")
	return strings.ToLower(wordEnd.ReplaceAllString(name, "$1-$2"))
}

var wordEnd = regexp.MustCompile("([a-z])([A-Z])")
