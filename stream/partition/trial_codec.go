package partition

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
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
	cohortField  = ":cohort:"  // plus number: by arm units, payoffs and their squares: see experiment.Counts
	groupsField  = ":groups:"  // period, and for 32 groups: impressions and payoffs
	pastField    = ":past:"    // plus period: run, and of each group that has any: number, impressions, payoffs. Published
	closedField  = ":closed"   // run, and the last closed period. Published
	foldedField  = ":folded"   // by user: run, the last folded period, and all partitions' totals up to it, as in totalsField. Published
	verdictField = ":verdict:" // plus arm: run, units, lower and upper bound, and 1 once a ranking carries it. Published
)

const trialVersion = "1"

var errTrial = errors.New("partition: the stored state of an experiment is broken")

func trialWords(value string) ([]string, error) {
	all := strings.Fields(value)
	if len(all) == 0 || all[0] != trialVersion {
		return nil, fmt.Errorf("%w: %.64q is not of version %s", errTrial, value, trialVersion)
	}
	return all[1:], nil
}

func trialNumbers(words []string, n int) ([]int64, error) {
	if len(words) != n {
		return nil, fmt.Errorf("%w: %d numbers, not %d", errTrial, len(words), n)
	}
	all := make([]int64, n)
	for i, w := range words {
		var err error
		if all[i], err = strconv.ParseInt(w, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: %w", errTrial, err)
		}
	}
	return all, nil
}

// ofRun splits a value that must belong to the experiment's run.
func ofRun(x *trial, value string) ([]string, error) {
	words, err := trialWords(value)
	if err == nil && (len(words) == 0 || words[0] != strconv.Itoa(int(x.Run))) {
		err = fmt.Errorf("%w: %.64q is of another run than %d", errTrial, value, x.Run)
	}
	if err != nil {
		return nil, err
	}
	return words[1:], nil
}

func appendNumbers(dst []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		dst = strconv.AppendInt(append(dst, ' '), n, 10)
	}
	return dst
}

func parsePeriod(x *trial, value string) (int64, error) {
	words, err := ofRun(x, value)
	if err != nil {
		return 0, err
	}
	n, err := trialNumbers(words, 1)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// appendFolded writes the last folded period and the totals up to it in one value, so that they are never stored apart.
func (x *trial) appendFolded(dst []byte, folded int64, totals experiment.Totals) []byte {
	stamp := x.stamp()
	dst = appendNumbers(append(dst, stamp...), folded)
	return append(dst, x.AppendTotals(nil, totals)[len(stamp):]...)
}

// parseFolded reads the output of appendFolded. It fails with errTrial, or as experiment.ParseTotals does.
func parseFolded(x *trial, value string) (folded int64, totals experiment.Totals, err error) {
	words, err := ofRun(x, value)
	if err != nil {
		return 0, nil, err
	}
	if len(words) == 0 {
		return 0, nil, fmt.Errorf("%w: folded %.64q", errTrial, value)
	}
	if folded, err = strconv.ParseInt(words[0], 10, 64); err != nil {
		return 0, nil, fmt.Errorf("%w: folded %.64q: %w", errTrial, value, err)
	}
	words[0] = string(x.stamp())
	totals, err = x.ParseTotals(strings.Join(words, " "))
	return folded, totals, err
}

func parsePast(x *trial, name, value string) (period int64, groups experiment.Groups, err error) {
	if period, err = strconv.ParseInt(name, 10, 64); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errTrial, err)
	}
	groups = make(experiment.Groups, experiment.GroupCount)
	return period, groups, x.ParseGroups(value, groups, 0, experiment.GroupCount)
}

func parseVerdict(x *trial, value string) (v verdictOf, err error) {
	words, err := ofRun(x, value)
	if err != nil {
		return v, err
	}
	if len(words) != 4 {
		return v, fmt.Errorf("%w: verdict %.64q", errTrial, value)
	}
	if v.units, err = strconv.ParseInt(words[0], 10, 64); err == nil {
		if v.lower, err = strconv.ParseFloat(words[1], 64); err == nil {
			v.upper, err = strconv.ParseFloat(words[2], 64)
		}
	}
	if err != nil {
		return v, fmt.Errorf("%w: verdict %.64q: %w", errTrial, value, err)
	}
	v.tripped, v.said = true, words[3] == "1"
	return v, nil
}

// load loads experiments. The next seal deletes fields of unconfigured experiments and of earlier runs, verdicts of this run apart:
// without the units counted meanwhile its sums would be wrong.
func (t *trials) load(fields []state.Field, watermark event.Millis) error {
	stored := make(map[string]map[string]string) // by experiment
	for _, f := range fields {
		if string(f.Field) == armsField {
			if err := t.arms.load(string(f.Value)); err != nil {
				return err
			}
			continue
		}
		name, rest, _ := strings.Cut(string(f.Field), ":")
		if stored[name] == nil {
			stored[name] = make(map[string]string)
		}
		stored[name][":"+rest] = string(f.Value)
	}
	for name, of := range stored {
		if t.byName[name] == nil {
			t.drop(name, of, func(field string) bool { return !strings.HasPrefix(field, verdictField) })
		}
	}
	for _, x := range t.all {
		if err := t.loadOne(x, stored[x.Name], watermark); err != nil {
			return fmt.Errorf("experiment %q: %w", x.Name, err)
		}
	}
	return nil
}

func (t *trials) drop(name string, of map[string]string, which func(field string) bool) {
	for field := range of {
		if which(field) {
			t.strays = append(t.strays, name+field)
		}
	}
	slices.Sort(t.strays)
}

func (t *trials) loadOne(x *trial, of map[string]string, watermark event.Millis) error {
	begun, run := of[runField], int64(0)
	if begun != "" {
		words, err := trialWords(begun)
		if err != nil || len(words) < 3 {
			return fmt.Errorf("%w: run %.64q", errTrial, begun)
		}
		head, err := trialNumbers(words[:2], 2)
		if err != nil {
			return err
		}
		run, x.since = head[0], head[1]
		if definition := strings.Join(words[2:], " "); run == int64(x.Run) && definition != x.Definition {
			return fmt.Errorf("%w: run %d of experiment %q began as %s, and is configured as %s: raise experiments.%s.run", ErrExperiment, run,
				x.Name, definition, x.Definition, x.Name)
		}
	}
	if x.idle = run > int64(x.Run); x.idle {
		return nil
	}
	for k := range x.arms {
		x.arms[k].number = t.arms.number(armID{x.Name, x.Run, x.arms[k].learner.name})
		if v, err := parseVerdict(x, of[verdictField+x.arms[k].learner.name]); err == nil {
			x.arms[k].verdict = v
		}
	}
	if run < int64(x.Run) { // it begins
		if x.since, x.changed = watermark, true; run == 0 && x.since > 0 {
			x.since++ // a unit that began in this millisecond may be an earlier one
		}
		t.drop(x.Name, of, func(field string) bool {
			_, err := ofRun(x, of[field])
			return err != nil || !strings.HasPrefix(field, verdictField)
		})
		return nil
	}
	for field, value := range of {
		if err := x.sums.load(x, field, value); err != nil {
			return fmt.Errorf("field %q: %w", field, err)
		}
	}
	return nil
}

func (s *trialSums) load(x *trial, field, value string) (err error) {
	kind, name := field, ""
	if at := strings.IndexByte(field[1:], ':'); at >= 0 {
		kind, name = field[:at+2], field[at+2:]
	}
	switch kind {
	case totalsField:
		s.totals, err = x.ParseTotals(value)
	case closedField:
		s.closed, err = parsePeriod(x, value)
	case foldedField:
		s.folded, s.totals, err = parseFolded(x, value)
	case pastField:
		var period int64
		var groups experiment.Groups
		if period, groups, err = parsePast(x, name, value); err == nil {
			s.past[period] = groups
		}
	case cohortField:
		err = s.loadCohort(x, name, value)
	case groupsField:
		err = s.loadGroups(x, name, value)
	}
	return err
}

func (s *trialSums) loadCohort(x *trial, name, value string) error {
	number, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %w", errTrial, err)
	}
	by, err := x.ParseCohort(value)
	if err != nil {
		return fmt.Errorf("%w: %w", errTrial, err)
	}
	s.cohorts.Set(number, by)
	return nil
}

func (s *trialSums) loadGroups(x *trial, name, value string) error {
	of, part, _ := strings.Cut(name, ":")
	period, err := strconv.ParseInt(of, 10, 64)
	block, err2 := strconv.ParseInt(part, 10, 32)
	if err != nil || err2 != nil || block < 0 || block >= experiment.GroupCount/groupsInBlock {
		return fmt.Errorf("%w: groups %q", errTrial, name)
	}
	if s.periods[period] == nil {
		s.periods[period] = make(experiment.Groups, experiment.GroupCount)
	}
	from := int(block) * groupsInBlock
	return x.ParseGroups(value, s.periods[period], from, from+groupsInBlock)
}

func (t *armTable) load(value string) error {
	words, err := trialWords(value)
	if err != nil {
		return err
	}
	if len(words)%3 != 0 {
		return fmt.Errorf("%w: table of arms %.64q", errTrial, value)
	}
	for ; len(words) > 0; words = words[3:] {
		run, err := strconv.ParseInt(words[1], 10, 32)
		if err != nil {
			return fmt.Errorf("%w: table of arms: %w", errTrial, err)
		}
		t.number(armID{words[0], int32(run), words[2]})
	}
	t.changed = false
	return nil
}
