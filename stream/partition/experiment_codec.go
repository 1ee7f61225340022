package partition

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/policy/words"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// ExperimentsHash holds a partition's experiments. Each value is a version and words; numbers are decimal. Field names begin with the
// experiment's name, except for the table of arms, which lists experiment, run and arm in the order of the numbers that entries have.
const ExperimentsHash = "experiments"

// Field names, behind the experiment's name.
const (
	armsField    = "arms"
	runField     = ":run"      // run, time from which units are counted, and definition
	totalsField  = ":totals"   // by impression: run; by arm units, payoffs, deviations and their squares: see experiment.Sums. Published
	cohortField  = ":cohort"   // plus ":" and number: by arm units, payoffs and their squares: see experiment.Counts
	lagsField    = ":lags"     // by user plus ":" and block: the run-off's ended buckets; see experiment.AppendRunOff. Published
	bucketField  = ":bucket"   // plus ":" and number, by user plus ":" and block: an open bucket of the run-off; see experiment.AppendBucket
	groupsField  = ":groups"   // plus ":" and period, ":" and block: of 32 groups impressions and payoffs
	pastField    = ":past"     // plus ":" and period: run, and of each group that has any: number, impressions, payoffs. Published
	closedField  = ":closed"   // run, and the last closed period. Published
	foldedField  = ":folded"   // by user: run, the last folded period, and all partitions' totals up to it, as in totalsField. Published
	verdictField = ":verdict:" // plus arm: run, units, lower and upper bound, and 1 once a ranking carries it. Published
)

// trialKinds are the kinds of an experiment's fields with sums. By user those in blocks have one field for each block, else one.
var trialKinds = map[string]struct{ numbered, inBlocks, published bool }{
	totalsField: {published: true},
	cohortField: {numbered: true},
	lagsField:   {inBlocks: true, published: true},
	bucketField: {numbered: true, inBlocks: true},
	groupsField: {numbered: true, inBlocks: true},
	pastField:   {numbered: true, published: true},
	closedField: {published: true},
	foldedField: {published: true},
}

// trialField identifies a field with sums. Number and block are 0 where its kind has none.
type trialField struct {
	kind  string
	n     int64
	block int
}

func (f trialField) compare(o trialField) int {
	return cmp.Or(strings.Compare(f.kind, o.kind), cmp.Compare(f.n, o.n), cmp.Compare(f.block, o.block))
}

// name returns the field's name behind the experiment's.
func (f trialField) name(byUser bool) string {
	name, kind := f.kind, trialKinds[f.kind]
	if kind.numbered {
		name += ":" + strconv.FormatInt(f.n, 10)
	}
	if kind.inBlocks && byUser {
		name += ":" + strconv.Itoa(f.block)
	}
	return name
}

// parseField reads the output of name; ok is false for any other text.
func parseField(name string, byUser bool) (f trialField, ok bool) {
	kind, numbers, _ := strings.Cut(name[1:], ":")
	f.kind = ":" + kind
	number, block := "", numbers
	if trialKinds[f.kind].numbered {
		number, block, _ = strings.Cut(numbers, ":")
	}
	f.n, _ = strconv.ParseInt(number, 10, 64)
	f.block, _ = strconv.Atoi(block)
	return f, f.name(byUser) == name // false with a number that is unreadable, missing or too many
}

var errTrial = errors.New("partition: the stored state of an experiment is broken")

func appendNumbers(dst []byte, numbers ...int64) []byte {
	return words.Append(append(dst, ' '), ' ', numbers...)
}

func parsePeriod(x *experiment.Experiment, value string) (int64, error) {
	r, err := x.Words(value)
	period := r.Int(math.MinInt64, math.MaxInt64)
	return period, cmp.Or(err, r.End(errTrial))
}

// appendFolded writes the last folded period and the totals up to it in one value, so that they are never stored apart.
func appendFolded(dst []byte, x *experiment.Experiment, folded int64, totals experiment.Totals) []byte {
	head := x.Head(nil)
	return append(appendNumbers(append(dst, head...), folded), x.AppendTotals(nil, totals)[len(head):]...)
}

// parseFolded reads the output of appendFolded. It fails with errTrial, or as experiment.ParseTotals does.
func parseFolded(x *experiment.Experiment, value string) (folded int64, totals experiment.Totals, err error) {
	r, err := x.Words(value)
	if err != nil {
		return 0, nil, err
	}
	if folded = r.Int(math.MinInt64, math.MaxInt64); r.Faulty() {
		return 0, nil, errTrial
	}
	totals, err = x.ReadTotals(&r)
	return folded, totals, err
}

func parsePast(x *experiment.Experiment, value string) (experiment.Groups, error) {
	groups := make(experiment.Groups, experiment.GroupCount)
	return groups, x.ParseGroups(value, groups, 0, experiment.GroupCount)
}

func parseVerdict(x *experiment.Experiment, value string) (v verdictOf, err error) {
	r, err := x.Words(value)
	v = verdictOf{tripped: true, units: r.Int(math.MinInt64, math.MaxInt64)}
	v.lower, v.upper = r.Float(math.Inf(-1), math.Inf(1)), r.Float(math.Inf(-1), math.Inf(1))
	v.said = string(r.Word()) == "1"
	return v, cmp.Or(err, r.End(errTrial))
}

func (t *armTable) load(value string) error {
	r, err := experiment.Words(value)
	for r.Left() {
		t.number(armID{string(r.Word()), int32(r.Int(math.MinInt32, math.MaxInt32)), string(r.Word())})
	}
	if err = cmp.Or(err, r.End(errTrial)); err != nil {
		return fmt.Errorf("table of arms: %w", err)
	}
	t.changed = false
	return nil
}

type verdictOf struct {
	tripped      bool
	said         bool // a ranking of this partition carries it
	changed      bool // since the last seal
	units        int64
	lower, upper float64
}

// take copies a verdict, unless there is one already.
func (v *verdictOf) take(o *verdictOf) {
	if !v.tripped {
		*v = *o
		v.tripped, v.said, v.changed = true, false, true
	}
}

type armID struct {
	experiment string
	run        int32
	arm        string
}

// armTable numbers arms for entries. A number is never reused; see retire.
type armTable struct {
	all     []armID
	byID    map[armID]int32
	changed bool
}

// number returns an arm's number, a new one if it has none.
func (t *armTable) number(id armID) int32 {
	n, ok := t.byID[id]
	if !ok {
		n = int32(len(t.all))
		t.all, t.byID[id], t.changed = append(t.all, id), n, true
	}
	return n
}

// retire leaves an arm's number to units from before its run began here, under a name that no arm has. They were never counted as units.
func (t *armTable) retire(id armID) {
	n, ok := t.byID[id]
	if !ok {
		return
	}
	delete(t.byID, id)
	for taken := true; taken; _, taken = t.byID[id] { // a reshard carries such names over
		id.arm += resetMark
	}
	t.all[n], t.byID[id], t.changed = id, n, true
}

func writeTrial(dst *state.Changes, field string, value []byte, publish bool) {
	dst.Writes = append(dst.Writes, state.Write{Hash: ExperimentsHash, Field: []byte(field), Value: value, Publish: publish})
}

const noPeriod int64 = math.MinInt64
