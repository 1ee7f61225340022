package partition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
)

// History is one thing that was done to a partition's state by a person's command and not by its worker. Whoever folds
// the topics to check the state starts from the last entry.
type History struct {
	Number   int64   `json:"number"` // the checkpoint's sequence that did it
	Time     string  `json:"time"`   // RFC 3339
	Done     string  `json:"done"`   // reset, import, rebuild, reshard or skip
	Learner  string  `json:"learner,omitempty"`
	Was      string  `json:"was,omitempty"` // the name under which a reset learner's impressions end
	Detail   string  `json:"detail,omitempty"`
	Offsets  []int64 `json:"offsets"`  // where the inputs stood
	Rankings int64   `json:"rankings"` // and the rankings
	// Values names the hash that keeps what was taken in, for an import. Those of before there was such a hash have none.
	Values string `json:"values,omitempty"`
	// Topic and Skipped, of a skip, are the input topic's name and the offsets passed over: the first, and that behind the last.
	Topic   string  `json:"topic,omitempty"`
	Skipped []int64 `json:"skipped,omitempty"`
	// Taken, of a reshard, are the exports that the learners of the old partitions had taken in.
	Taken []Taken `json:"taken,omitempty"`
}

// Taken is an export that a learner took in.
type Taken struct {
	Learner string `json:"learner"`
	Detail  string `json:"detail"` // of its entry in the history
}

// AllTaken are the exports that learners took in since they were last reset, in this partition or in those that it was made
// of.
func AllTaken(past []History) []Taken {
	var all []Taken
	for i := range past {
		h := &past[i]
		switch h.Done {
		case "import":
			all = append(all, Taken{h.Learner, h.Detail})
		case "reset":
			all = slices.DeleteFunc(all, func(one Taken) bool { return one.Learner == h.Learner })
		}
		all = append(all, h.Taken...)
	}
	return all
}

const historyPrefix = "history." // of the fields in the hash "meta"

// keptHistory is how many entries of the history are kept.
const keptHistory = 100

// importedHash keeps, behind a learner's name and a colon, all that the learner has taken in of exports since it began:
// field "<hash> <field>" is what a learner would store in this field of this hash that knows nothing else. Item numbers
// are those of the items in it. No worker reads it: whoever folds the topics starts from there.
const importedHash = "imported"

// ImportedHash names the hash with what a learner has taken in.
func ImportedHash(learner string) string { return learner + ":" + importedHash }

// Imported gives the writes that keep what a learner takes in: own are those of a machine that knows nothing but what was
// taken in, with this, and taken those of the one that takes it in, which leaves out BOLD's instances that it knows already.
func Imported(learner string, own, taken []state.Write) []state.Write {
	known := map[string]bool{}
	for _, w := range taken {
		hash, ours := strings.CutPrefix(w.Hash, learner+":")
		if instance, ok := delay.InstanceOf(hash, w.Field); ours && ok && w.Value != nil {
			known[instance] = true
		}
	}
	var all []state.Write
	for _, w := range own {
		hash, ours := strings.CutPrefix(w.Hash, learner+":")
		instance, ok := delay.InstanceOf(hash, w.Field)
		if !ours || ok && !known[instance] {
			continue
		}
		field := append([]byte(hash+" "), w.Field...)
		all = append(all, state.Write{Hash: ImportedHash(learner), Field: field, Value: w.Value})
	}
	return all
}

// CutImported takes the fields of a learner's ImportedHash out of fields, and gives them as those of the learner itself.
func CutImported(learner string, fields []state.Field) (imported, others []state.Field) {
	for _, f := range fields {
		if f.Hash != ImportedHash(learner) {
			others = append(others, f)
			continue
		}
		if hash, field, found := bytes.Cut(f.Field, []byte{' '}); found {
			imported = append(imported, state.Field{Hash: learner + ":" + string(hash), Field: field, Value: f.Value})
		}
	}
	return imported, others
}

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
