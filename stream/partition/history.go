package partition

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/state"
)

// History is one thing that was done to a partition's state by a person's command and not by its worker. Whoever folds
// the topics to check the state starts from the last entry.
type History struct {
	Number   int64   `json:"number"` // the checkpoint's sequence that did it
	Time     string  `json:"time"`   // RFC 3339
	Done     string  `json:"done"`   // reset, import, rebuild or reshard
	Learner  string  `json:"learner,omitempty"`
	Was      string  `json:"was,omitempty"` // the name under which a reset learner's impressions end
	Detail   string  `json:"detail,omitempty"`
	Offsets  []int64 `json:"offsets"`  // where the inputs stood
	Rankings int64   `json:"rankings"` // and the rankings
}

const historyPrefix = "history." // of the fields in the hash "meta"

// keptHistory is how many entries of the history are kept.
const keptHistory = 100

// ReadHistory picks a partition's history, oldest first, from its fields.
func ReadHistory(fields []state.Field) ([]History, error) {
	var all []History
	for _, f := range fields {
		if f.Hash != metaHash || !strings.HasPrefix(string(f.Field), historyPrefix) {
			continue
		}
		var h History
		if err := json.Unmarshal(f.Value, &h); err != nil {
			return nil, fmt.Errorf("partition: field %q of meta: %w", f.Field, err)
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b History) int { return int(min(max(a.Number-b.Number, -1), 1)) })
	return all, nil
}

// Write appends what stores h, behind what there is of the history already; the oldest entries give way.
func (h *History) Write(dst *state.Changes, before []History) error {
	value, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("partition: writing the history: %w", err)
	}
	field := func(n int64) []byte { return []byte(historyPrefix + strconv.FormatInt(n, 10)) }
	for i := 0; i+keptHistory <= len(before); i++ {
		dst.Writes = append(dst.Writes, state.Write{Hash: metaHash, Field: field(before[i].Number)})
	}
	dst.Writes = append(dst.Writes, state.Write{Hash: metaHash, Field: field(h.Number), Value: value})
	return nil
}
