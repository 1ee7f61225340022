package checker

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

type armKey struct {
	experiment string
	run        int32
	arm        string
}

// armFold is an arm's expected state.
type armFold struct {
	units   int64   // units ranked by it and counted
	worth   float64 // of those that have ended
	z, zx   float64 // covariates of all, and their products with the worth
	unknown bool    // some of it is not known
	tripped bool    // a ranking was made in its place, or carries its verdict
}

// experimentOf returns the learner that an impression asks for under a configuration, and its experiment; nil if there is none.
func (f *fold) experimentOf(cfg *config.Config) (learner string, x *config.Experiment) {
	learner = string(f.imp.Learner)
	if d := cfg.DefaultLearner(); learner == "" && d != nil {
		learner = d.Name
	}
	return learner, cfg.ExperimentOf(learner)
}

// drawn returns a unit's arm: the first by name at which the shares add up to more than the unit's number.
func drawn(x *config.Experiment, unit string) (arm string, share float64) {
	z := xxhash.Sum64String(fmt.Sprintf("%s\x00%d\x00%s", x.Name, x.Run, unit))
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	u, sum := float64((z^z>>31)>>11)*0x1p-53, 0.0
	arms := slices.SortedFunc(slices.Values(x.Arms), func(a, b config.Arm) int { return strings.Compare(a.Learner, b.Learner) })
	for _, a := range arms[:len(arms)-1] {
		if sum += a.Share; u < sum {
			return a.Learner, a.Share
		}
	}
	last := arms[len(arms)-1]
	return last.Learner, last.Share
}

// unitOf returns the unit of the current impression, which began then, and the unit as its ranking names it.
func (f *fold) unitOf(x *config.Experiment, began event.Millis) (unit, said string) {
	if x.By != config.ByUser {
		return string(f.imp.ID), ""
	}
	said = fmt.Sprintf("%03x", xxhash.Sum64(f.imp.User)%1024)
	if x.Period != config.Never {
		said += fmt.Sprintf("@%d", int64(math.Floor(float64(began)/float64(x.Period.Milliseconds()))))
	}
	return said, said
}

// covariateOf returns the covariate of an impression, in millionths: by its candidates' predictions in the range of the control's payoffs, else
// by their utilities.
func covariateOf(imp *event.Impression, cfg *config.Config, x *config.Experiment) int32 {
	var predictions, utilities []float64
	for _, c := range imp.Context.Candidates {
		if !math.IsNaN(c.Predicted) {
			predictions = append(predictions, c.Predicted)
		}
	}
	for _, c := range imp.Candidates {
		utilities = append(utilities, c.Utility)
	}
	switch l := cfg.Learner(x.Control); {
	case len(predictions) > 0 && l != nil:
		return int32(math.Round(1e6 * normalise(l, slices.Max(predictions))))
	case len(predictions) > 0 || !imp.HasUtilities:
		return 0
	}
	u := slices.Max(utilities)
	return int32(math.Round(1e6 * (0.5 + u/(1+math.Abs(u))/2)))
}

// checkArm checks that a ranking's assignment fits one of the configurations.
func (f *fold) checkArm(name any, rk *event.Ranking) {
	a := &rk.Decision.Assignment
	fits, want := false, ""
	for _, cfg := range f.c.configs {
		learner, x := f.experimentOf(cfg)
		switch {
		case x == nil:
			fits = fits || a.Experiment == "" && string(rk.Learner) == learner
			want = fmt.Sprintf("learner %s, outside of experiments", learner)
		case x.By == config.ByUser && len(f.imp.User) == 0:
			fits = fits || a.Experiment == "" && string(rk.Learner) == x.Control
			want = "the control, outside of the experiment"
		default:
			unit, said := f.unitOf(x, rk.Decision.Began)
			arm, share := drawn(x, unit)
			z := int32(0)
			if x.By != config.ByUser {
				z = covariateOf(&f.imp, cfg, x)
			}
			ranked := arm == string(rk.Learner)
			if a.Fallback {
				ranked = !ranked && slices.ContainsFunc(x.Arms, func(b config.Arm) bool { return b.Learner == string(rk.Learner) })
			}
			fits = fits || ranked && a.Experiment == x.Name && a.Run == int32(x.Run) && a.Arm == arm && a.Probability == share && string(a.Unit) == said &&
				max(a.Covariate-z, z-a.Covariate) <= 1 // rounded in another order
			want = fmt.Sprintf("arm %s of %s, run %d, share %v, unit %q, covariate %d", arm, x.Name, x.Run, share, said, z)
		}
	}
	f.out.must(experimentsArm, fits, name, want, say("learner %s, %+v", rk.Learner, *a))
}

// fedBy returns the learner that is fed an impression's outcome: the one that ranked it or, under shared learning, the control.
func (f *fold) fedBy(rk *event.Ranking) []byte {
	a := &rk.Decision.Assignment
	for _, cfg := range f.c.configs {
		if x := cfg.ExperimentOf(a.Experiment); x != nil && x.Learning == config.Shared && int32(x.Run) == a.Run {
			return []byte(x.Control)
		}
	}
	return rk.Learner
}

// enrol notes an impression's arm. After a verdict the arm ranks nothing.
func (f *fold) enrol(name any, l *life, d *event.Decision) {
	a := &d.Assignment
	if a.Experiment == "" {
		return
	}
	if v := &d.Verdict; v.Arm != "" {
		of := made(&f.arms, armKey{a.Experiment, v.Run, v.Arm})
		f.out.must(experimentsVerdict, !of.tripped, name, "one ranking that reports it", "another one")
		of.tripped = true
	}
	l.arm, l.covariate = armKey{a.Experiment, a.Run, a.Arm}, a.Covariate
	of := made(&f.arms, l.arm)
	f.out.must(experimentsVerdict, of.tripped == a.Fallback, name, say("ranked by another arm: %t", of.tripped), a.Fallback)
	if a.Fallback {
		l.arm = armKey{}
		return
	}
	if f.counts(l) {
		of.units, of.z = of.units+1, of.z+l.z()
		of.unknown = of.unknown || l.open
	}
}

// counts reports whether a unit is counted: its run was known here when it began.
func (f *fold) counts(l *life) bool {
	words := strings.Fields(f.state.experiment(l.arm.experiment + ":run"))
	if len(words) < 3 || words[1] != strconv.Itoa(int(l.arm.run)) {
		return false
	}
	since, err := strconv.ParseInt(words[2], 10, 64)
	return err == nil && l.began >= since
}

// leaveOut withdraws an impression that was not shown as ranked.
func (f *fold) leaveOut(l *life) {
	if l.arm != (armKey{}) && f.counts(l) {
		of := made(&f.arms, l.arm)
		of.units, of.z = of.units-1, of.z-l.z()
	}
	l.arm = armKey{}
}

// valued adds the worth of a unit that has ended in one of these ways.
func (f *fold) valued(l *life, as fate) {
	if l.arm == (armKey{}) || !f.counts(l) {
		return
	}
	of, lf := made(&f.arms, l.arm), l.learner
	if lf == nil || lf.reset != nil || len(lf.variants) > 1 {
		of.unknown = true
		return
	}
	cfg, worth := lf.variants[0], 0.0
	switch as {
	case wasPaid:
		worth = l.paid
	case wasUnselected:
		worth = normalise(cfg, 0)
	case wasExpired, wasDefaulted:
		raw := 0.0
		if l.selected >= 0 {
			raw = f.worthUnpaid(l.arm.experiment, cfg)
		}
		worth = normalise(cfg, raw)
	default:
		of.unknown = true
	}
	of.worth, of.zx = of.worth+worth, of.zx+worth*l.z()
}

func (f *fold) worthUnpaid(name string, l *config.Learner) float64 {
	if x := f.c.cfg.ExperimentOf(name); x != nil && x.Unpaid != nil {
		return *x.Unpaid
	}
	if l.OnExpiry.Default != nil {
		return *l.OnExpiry.Default
	}
	return 0
}

func (st *state) experiment(field string) string { return st.hashes["experiments"][field] }

// storedArm returns the arm at a place of the stored table.
func (st *state) storedArm(at int32) (k armKey) {
	words := strings.Fields(st.experiment("arms"))
	if at < 0 || int(at)*3+3 >= len(words) {
		return k
	}
	words = words[1+3*at:]
	run, _ := strconv.ParseInt(words[1], 10, 32)
	arm, _, _ := strings.Cut(words[2], "@")
	return armKey{words[0], int32(run), arm}
}

// beganAgain reports whether an arm's run began here while units of it were there. Which of these began before is not known.
func (st *state) beganAgain(k armKey) bool {
	return strings.Contains(st.experiment("arms")+" ", fmt.Sprintf(" %s %d %s@", k.experiment, k.run, k.arm))
}

// compareArm checks that a pending entry has the arm of its ranking.
func (f *fold) compareArm(id string, l *life, e *entry) {
	stored := armKey{}
	if e.inExperiment {
		stored = f.state.storedArm(e.arm)
	}
	same := stored == l.arm && (!e.inExperiment || e.covariate == l.covariate)
	f.out.must(entriesArm, same, id, say("%+v, covariate %d", l.arm, l.covariate), say("%+v, covariate %d", stored, e.covariate))
}

// checkExperiments compares the units and payoffs of each arm with the log's, and checks that verdicts in rankings are stored.
func (f *fold) checkExperiments() {
	for i := range f.c.cfg.Experiments {
		x := &f.c.cfg.Experiments[i]
		sums, lags, exact, err := f.state.storedSums(x)
		if err != nil {
			f.out.broken(experimentsSums, x.Name, "sums that can be read", err)
			continue
		}
		l := f.c.cfg.Learner(x.Control)
		whole := f.state.runs(x) && l != nil && l.Aggregate != config.Sum // the worth of partial payoffs so far is not known here
		for _, a := range x.Arms {
			key := armKey{x.Name, int32(x.Run), a.Learner}
			of := made(&f.arms, key)
			verdict := f.state.experiment(x.Name + ":verdict:" + a.Learner)
			f.out.must(experimentsVerdict, !of.tripped || strings.HasPrefix(verdict, fmt.Sprintf("1 %d ", x.Run)), x.Name+": "+a.Learner,
				"a verdict, by which rankings go", strconv.Quote(verdict))
			unknown := of.unknown || f.state.beganAgain(key) || f.unordered > 0 || f.partial || len(f.c.configs) > 1
			want := armSums{of.units, of.worth, of.z, of.zx}
			if exact && !unknown {
				f.out.must(experimentsSums, sums[a.Learner].near(want), x.Name+": "+a.Learner, say("%+v", want), say("%+v", sums[a.Learner]))
			} else {
				f.out.skip("experiment %s: arm %s is not compared", x.Name, a.Learner)
			}
			if whole && !unknown {
				f.out.must(experimentsSums, lags[a.Learner].near(want), x.Name+": "+a.Learner+", by age", say("%+v", want), say("%+v", lags[a.Learner]))
			}
		}
	}
}

// armSums are an arm's units with their worth, their covariates and the products of both.
type armSums struct {
	units        int64
	worth, z, zx float64
}

func (s armSums) plus(o armSums) armSums {
	return armSums{s.units + o.units, s.worth + o.worth, s.z + o.z, s.zx + o.zx}
}

// near allows for each unit's rounding, and one more for each cohort.
func (s armSums) near(o armSums) bool {
	slack := float64(o.units+1) * 0x1p-20
	return s.units == o.units && max(math.Abs(s.worth-o.worth), math.Abs(s.z-o.z), math.Abs(s.zx-o.zx)) <= slack
}

// storedSums returns the stored sums by arm, and those of run-offs, by user of all blocks of groups: of their ended buckets and of their
// open ones. The first are not exact if periods are folded, which is for all partitions together, or another run than the configured one is
// stored.
func (st *state) storedSums(x *config.Experiment) (sums, lags map[string]armSums, exact bool, err error) {
	sums, lags = map[string]armSums{}, map[string]armSums{}
	arms, run := armNames(x), fmt.Sprintf("1 %d ", x.Run)
	for field, value := range st.hashes["experiments"] {
		kind, found := strings.CutPrefix(field, x.Name+":")
		kind, name, _ := strings.Cut(kind, ":")
		rest, same := strings.CutPrefix(value, run)
		byArm := slices.Contains([]string{"totals", "cohort", "lags", "bucket"}, kind)
		if !found || !same || !byArm && kind != "groups" && kind != "past" {
			continue
		}
		all, arm, sum, into := strings.Fields(rest), "", armSums{}, sums
		if kind == "lags" { // behind the bounds of its buckets
			all = all[min(1, len(all)):]
		}
		if byArm && len(all) != len(arms) {
			return nil, nil, false, fmt.Errorf("field %s is %.100q", field, value)
		}
		for k, word := range all {
			w := split(word, ":")
			if byArm {
				arm = arms[k]
			}
			switch kind {
			case "totals": // behind name and share
				w.word()
				w.word()
				n := w.ints(7)
				sum = sumsOf(0x1p-20, n[0], n[1], n[4], n[6])
			case "cohort":
				n := w.ints(6)
				sum = sumsOf(0x1p-30, n[0], n[1], n[3], n[5])
			case "lags", "bucket":
				w, into = split(strings.ReplaceAll(word, ",", ":"), ":"), lags
				entries, paid := 1, strings.Count(word, ",")
				if kind == "lags" {
					entries, paid = 33, 33
				}
				sum = armSums{}
				for range entries { // units, covariates, their squares
					n := w.ints(3)
					sum = sum.plus(sumsOf(0x1p-30, n[0], 0, n[1], 0))
				}
				for range paid { // payoffs, sum, squares, increase and products, in an open bucket behind their lag
					if kind == "bucket" {
						w.int(0)
					}
					n := w.ints(5)
					sum = sum.plus(sumsOf(0x1p-30, 0, n[1], 0, n[4]))
				}
			default:
				n := w.ints(3)
				period, _, _ := strings.Cut(name, ":")
				arm, _ = drawn(x, fmt.Sprintf("%03x@%s", n[0], period))
				sum = sumsOf(0x1p-30, n[1], n[2], 0, 0)
			}
			if err := w.end(); err != nil {
				return nil, nil, false, fmt.Errorf("field %s is %.100q: %w", field, value, err)
			}
			into[arm] = into[arm].plus(sum)
		}
	}
	return sums, lags, st.runs(x) && st.experiment(x.Name+":folded") == "", nil
}

// armNames returns an experiment's arms in the order of stored sums.
func armNames(x *config.Experiment) (names []string) {
	for _, a := range x.Arms {
		names = append(names, a.Learner)
	}
	slices.Sort(names)
	return names
}

func sumsOf(scale float64, units, worth, z, zx int64) armSums {
	return armSums{units, float64(worth) * scale, float64(z) * scale, float64(zx) * scale}
}

// runs reports whether the stored run is the configured one, and counts units.
func (st *state) runs(x *config.Experiment) bool {
	return strings.HasPrefix(st.experiment(x.Name+":run"), fmt.Sprintf("1 %d ", x.Run)) && x.Period != config.Never
}
