package checker

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// history is a command's change of the stored state.
type history struct {
	Number  int64   `json:"number"`
	Done    string  `json:"done"`
	Learner string  `json:"learner"`
	Was     string  `json:"was"`     // the name of a reset learner's earlier impressions
	Offsets []int64 `json:"offsets"` // the inputs' positions
	Values  string  `json:"values"`  // the hash with imported values
	Payoffs int64   `json:"payoffs"` // of a warm start
	Topic   string  `json:"topic"`   // of a skip, with the offsets skipped
	Skipped []int64 `json:"skipped"`
}

// keptHistory bounds the stored history: at this length earlier entries may be missing.
const keptHistory = 100

// readHistory parses a history entry. An unreadable one is a violation.
func (st *state) readHistory(field, value string, out *findings) {
	if !strings.HasPrefix(field, "history.") {
		return
	}
	var h history
	err := json.Unmarshal([]byte(value), &h)
	ok := err == nil && h.Done != "" && (h.Done != "reset" || h.Was != "" && len(h.Offsets) == event.Inputs) &&
		(h.Done != "skip" || len(h.Skipped) == 2)
	if !out.must(metaFields, ok, field, "an action", value) {
		return
	}
	st.history = append(st.history, h)
}

// applyHistory applies commands, which the topics do not show. A reset learner is a new one from that cut on;
// its impressions below belong to its predecessor. An import or a warm start gives a learner its first values; see begin.
func (f *fold) applyHistory() {
	all := f.state.history
	slices.SortFunc(all, func(a, b history) int { return cmp.Compare(a.Number, b.Number) })
	if len(all) >= keptHistory {
		f.out.skip("the history has %d entries, and older ones may be gone: the expected state is not known", len(all))
		f.partial = true
	}
	unknown := map[string]bool{}
	for i := range all {
		h := &all[i]
		lf := f.learners[h.Learner]
		f.warmed += h.Payoffs
		switch {
		case h.Done == "rebuild": // from the topics alone: earlier changes are undone
			clear(unknown)
			clear(f.past)
			f.warmed = 0
		case h.Done == "skip":
			f.passOver(h)
		case h.Done == "reset_experiment": // the stored run says since when its units are counted
		case h.Done != "reset" && h.Done != "import" && h.Done != "warm":
			f.out.skip("checkpoint %d was made by %q: its contents do not follow from the log alone", h.Number, h.Done)
			f.partial = true
		case lf == nil: // its impressions have no learner
		case h.Done == "reset":
			f.out.skip("learner %q was reset by checkpoint %d: outcomes of its earlier impressions' records are not compared",
				h.Learner, h.Number)
			delete(unknown, h.Learner)
			f.past[h.Learner] = append(f.past[h.Learner], lf.before(h))
		case h.Values == "":
			f.out.skip("learner %q took an export in by checkpoint %d, of which nothing was kept: its statistics are not compared",
				h.Learner, h.Number)
			unknown[h.Learner] = true
		}
	}
	for name := range unknown {
		f.learners[name].unknown = true
	}
	for name := range f.past {
		f.learners[name].renew()
	}
}

// passOver notes records that a command skipped.
func (f *fold) passOver(h *history) {
	for t := range event.Topic(event.Inputs) {
		if f.c.broker.Topic(t) == h.Topic && h.Topic != "" {
			f.state.skipped[t] = append(f.state.skipped[t], span{h.Skipped[0], h.Skipped[1]})
		}
	}
}

// before returns the learner's state before a reset: nothing of its state is left, and its impressions end like an unconfigured learner's.
func (lf *learnerFold) before(h *history) *learnerFold {
	return &learnerFold{name: h.Was, reset: h, variants: lf.decided, decided: lf.decided, always: lf.always, delay: lf.delay,
		given: lf.given}
}

// renew keeps the configurations under which the learner can have learned since its reset: those with the present fingerprint.
func (lf *learnerFold) renew() {
	now := lf.decided[0].Fingerprint()
	lf.variants = slices.DeleteFunc(slices.Clone(lf.decided), func(v *config.Learner) bool { return v.Fingerprint() != now })
}

// decidedBy returns the learner with a name that an impression at an offset belongs to, before or after a reset; nil if none is configured.
func (f *fold) decidedBy(name []byte, offset int64) *learnerFold {
	for _, lf := range f.past[string(name)] {
		if offset < lf.reset.Offsets[event.Impressions] {
			return lf
		}
	}
	return f.learners[string(name)]
}

// begin reads imported values, fields "<hash> <field>", to which the log's payoffs are added.
func (lf *learnerFold) begin(f *fold, name string, fields map[string]string) {
	hashes := map[string]map[string]string{}
	for field, value := range fields {
		hash, rest, found := strings.Cut(field, " ")
		if !f.out.must(delayFields, found, name+" "+field, "<hash> <field>", value) {
			continue
		}
		if hashes[hash] == nil {
			hashes[hash] = map[string]string{}
		}
		hashes[hash][rest] = value
	}
	b := &storedLearner{}
	b.loadItems(f, name, hashes["items"], hashes["names"], hashes["catalogue"])
	for hash, fields := range hashes {
		switch {
		case slices.Contains(itemHashes, hash), hash == "learner": // the last estimate of windows is no sum
		case f.out.must(delayFields, loads[hash] != nil, name+" "+hash, "values of a learner", "an unknown hash"):
			b.loadHash(f.out, name+" "+hash, hash, fields)
		}
	}
	lf.imported = b
	for item, s := range b.items {
		it := lf.item(f.items.intern([]byte(item)))
		it.n, it.sum, it.sq = s.n, s.sum, s.sq
	}
	for interval, n := range b.windows {
		lf.intervals[interval] = n
	}
	for p, n := range b.pairs {
		lf.pairs[[2]uint32{b.fold(p[0]), b.fold(p[1])}] = n
		lf.against[[2]uint32{b.fold(p[0]), b.fold(p[1])}] = b.against[p]
	}
	for item, m := range b.rated {
		put(&lf.rated, b.fold(item), &m)
	}
	for field, n := range b.rounds {
		number, length, err := cutInstance(field)
		if !f.out.must(delayFields, err == nil, name+" "+field, "the number of an instance", err) {
			continue
		}
		list := made(&made(&lf.instances, number).lists, length)
		list.fed, list.began = bound{n, n}, true
		for c, x := range b.vectors[field] {
			if length == 0 {
				c = b.fold(c)
			}
			put(&list.at, c, &coordinate{start: true, sum: x})
		}
	}
}
