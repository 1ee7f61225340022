package partition

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/policy/words"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

func (t *trials) seal(dst *state.Changes) {
	if t.arms.changed {
		v := []byte(experiment.Version)
		for _, a := range t.arms.all {
			v = appendNumbers(append(append(v, ' '), a.experiment...), int64(a.run))
			v = append(append(v, ' '), a.arm...)
		}
		writeTrial(dst, armsField, v, false)
		t.arms.changed = false
	}
	dst.Writes = append(dst.Writes, t.strays.Writes...)
	t.strays.Writes = nil
	for _, x := range t.all {
		x.seal(dst)
	}
}

func (x *trial) seal(dst *state.Changes) {
	if x.sums.idle {
		return
	}
	if x.changed {
		writeTrial(dst, x.Name+runField, append(append(appendNumbers(x.Head(nil), x.sums.since), ' '), x.Definition...), false)
		x.changed = false
	}
	for k := range x.arms {
		v := &x.arms[k].verdict
		if !v.changed {
			continue
		}
		value := appendNumbers(x.Head(nil), v.units)
		value = words.AppendFloats(value, ' ', v.lower, v.upper)
		said := int64(0)
		if v.said {
			said = 1
		}
		writeTrial(dst, x.Name+verdictField+x.arms[k].learner.name, appendNumbers(value, said), true)
		v.changed = false
	}
	x.sums.seal(dst)
}

// uncounted is the time from which units of an unconfigured experiment are counted.
const uncounted = math.MaxInt64

// load loads experiments. The next seal deletes sums of unconfigured experiments and of earlier runs: without the units counted meanwhile
// they would be wrong. Verdicts of this run stay, and its definition.
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
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		of := stored[name]
		if t.byName[name] != nil {
			continue
		}
		if words := strings.SplitN(of[runField], " ", 4); len(words) == 4 && words[2] != fmt.Sprint(uncounted) {
			words[2] = fmt.Sprint(uncounted)
			of[runField] = strings.Join(words, " ")
			writeTrial(&t.strays, name+runField, []byte(of[runField]), false)
		}
		for _, field := range slices.Sorted(maps.Keys(of)) {
			if verdict := strings.HasPrefix(field, verdictField); verdict || field == runField {
				writeTrial(&t.left, name+field, []byte(of[field]), verdict)
			} else {
				writeTrial(&t.strays, name+field, nil, true)
			}
		}
	}
	for _, x := range t.all {
		if err := t.loadOne(x, stored[x.Name], watermark); err != nil {
			return fmt.Errorf("experiment %q: %w", x.Name, err)
		}
	}
	return nil
}

func (t *trials) loadOne(x *trial, of map[string]string, watermark event.Millis) error {
	run, since, err := x.begun(of[runField])
	if err != nil {
		return err
	}
	x.sums.since, x.sums.idle = since, run > int64(x.Run)
	begins := run < int64(x.Run) || since == uncounted
	for k := range x.arms {
		id := armID{x.Name, x.Run, x.arms[k].learner.name}
		if begins {
			t.arms.retire(id)
		}
		x.arms[k].number = t.arms.number(id)
		if v, err := parseVerdict(x.Experiment, of[verdictField+x.arms[k].learner.name]); err == nil {
			x.arms[k].verdict = v
		}
	}
	if x.sums.idle {
		return nil
	}
	if begins {
		if x.sums.since, x.changed = watermark, true; (run == 0 || since == uncounted) && watermark > 0 {
			x.sums.since++ // a unit that began in this millisecond may be an earlier one
		}
		for _, field := range slices.Sorted(maps.Keys(of)) {
			if _, err := x.Words(of[field]); err != nil || !strings.HasPrefix(field, verdictField) {
				writeTrial(&t.strays, x.Name+field, nil, true)
			}
		}
		return nil
	}
	for field, value := range of {
		if err := x.sums.load(field, value); err != nil {
			return fmt.Errorf("field %q: %w", field, err)
		}
	}
	return nil
}

// begun reads the latest run that was stored, and since when it counts; zeros for "". It fails with ErrExperiment if this run began with
// another definition, or a higher one has ended: this one would wait for it for ever.
func (x *ExperimentConfig) begun(stored string) (run int64, since event.Millis, err error) {
	if stored == "" {
		return 0, 0, nil
	}
	r, err := experiment.Words(stored)
	run, since = r.Int(math.MinInt64, math.MaxInt64), r.Int(math.MinInt64, math.MaxInt64)
	definition := string(r.Rest())
	if err != nil || !r.Done() {
		return 0, 0, fmt.Errorf("%w: run %.64q", errTrial, stored)
	}
	if run == int64(x.Run) && definition != x.Definition {
		return 0, 0, fmt.Errorf("%w: run %d of experiment %q began as %s, and is configured as %s: raise experiments.%s.run", ErrExperiment, x.Run,
			x.Name, definition, x.Definition, x.Name)
	}
	if run > int64(x.Run) && since == uncounted {
		return 0, 0, fmt.Errorf("%w: run %d of experiment %q has ended: raise experiments.%s.run above it", ErrExperiment, run, x.Name, x.Name)
	}
	return run, since, nil
}

// unfit returns the error of begun for the stored fields.
func (x *ExperimentConfig) unfit(fields []state.Field) error {
	for _, f := range fields {
		if f.Hash == ExperimentsHash && string(f.Field) == x.Name+runField {
			_, _, err := x.begun(string(f.Value))
			return err
		}
	}
	return nil
}
