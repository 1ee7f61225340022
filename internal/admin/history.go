package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// History is a change of a partition's state by a command. A check by folding the topics starts from the last entry.
type History struct {
	Number   int64   `json:"number"` // sequence of the checkpoint that made it
	Time     string  `json:"time"`   // RFC 3339
	Done     string  `json:"done"`   // reset, reset_experiment, import, warm, rebuild, reshard or skip
	Learner  string  `json:"learner,omitempty"`
	Was      string  `json:"was,omitempty"` // the name of a reset learner's earlier impressions
	Detail   string  `json:"detail,omitempty"`
	Offsets  []int64 `json:"offsets"`  // positions of the inputs
	Rankings int64   `json:"rankings"` // position of the rankings
	// Values names the hash with the values of an import or warm start.
	Values string `json:"values,omitempty"`
	// Payoffs, of a warm start, are those added to the account.
	Payoffs int64 `json:"payoffs,omitempty"`
	// Topic and Skipped, of a skip, are the input topic's name, the first offset skipped, and the offset behind the last.
	Topic   string  `json:"topic,omitempty"`
	Skipped []int64 `json:"skipped,omitempty"`
	// Taken, of a reshard, are the exports that the old partitions' learners had imported.
	Taken []Taken `json:"taken,omitempty"`
}

// Taken is an export that a learner imported.
type Taken struct {
	Learner string `json:"learner"`
	Detail  string `json:"detail"` // of its entry in the history
}

// allTaken returns the exports imported since each learner's last reset, in this partition or in those it was made from.
func allTaken(past []History) []Taken {
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

// keptHistory bounds the entries of the history.
const keptHistory = 100

// importedHash names the hash with a learner's imported values.
func importedHash(learner string) string { return learner + ":" + partition.ImportedHash }

// imported returns the writes that record an import: own are those of a machine with the imports only, taken those of the importing one.
// The latter skips BOLD's instances that it has already.
func imported(learner string, own, taken []state.Write) []state.Write {
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
		all = append(all, state.Write{Hash: importedHash(learner), Field: field, Value: w.Value})
	}
	return all
}

// cutImported separates the fields of a learner's importedHash, as those of the learner itself.
func cutImported(learner string, fields []state.Field) (taken, others []state.Field) {
	for _, f := range fields {
		if f.Hash != importedHash(learner) {
			others = append(others, f)
			continue
		}
		if hash, field, found := bytes.Cut(f.Field, []byte{' '}); found {
			taken = append(taken, state.Field{Hash: learner + ":" + string(hash), Field: field, Value: f.Value})
		}
	}
	return taken, others
}

// readHistory returns a partition's history, oldest first.
func readHistory(fields []state.Field) ([]History, error) {
	var all []History
	for _, f := range fields {
		if f.Hash != state.MetaHash || !strings.HasPrefix(string(f.Field), historyPrefix) {
			continue
		}
		var h History
		if err := json.Unmarshal(f.Value, &h); err != nil {
			return nil, fmt.Errorf("field %q of meta: %w", f.Field, err)
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b History) int { return int(min(max(a.Number-b.Number, -1), 1)) })
	return all, nil
}

// write appends the entry of the checkpoint that follows m behind the existing history, and drops the oldest entries.
func (h History) write(dst *state.Changes, before []History, m *state.Meta, now time.Time) error {
	h.Number, h.Time, h.Offsets, h.Rankings = m.Seq+1, now.UTC().Format(time.RFC3339), offsetsOf(m), m.Rankings
	value, err := json.Marshal(&h)
	if err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	field := func(n int64) []byte { return []byte(historyPrefix + strconv.FormatInt(n, 10)) }
	for i := 0; i+keptHistory <= len(before); i++ {
		dst.Writes = append(dst.Writes, state.Write{Hash: state.MetaHash, Field: field(before[i].Number)})
	}
	dst.Writes = append(dst.Writes, state.Write{Hash: state.MetaHash, Field: field(h.Number), Value: value})
	return nil
}

// offsetsOf returns the positions of the inputs.
func offsetsOf(m *state.Meta) (all []int64) {
	for _, in := range m.Inputs {
		all = append(all, in.Offset)
	}
	return all
}
