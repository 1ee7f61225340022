package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

const liftStudy = "lifts"

// liftSize is the size of the study of experiments.
type liftSize struct {
	runs        int // without a difference
	impressions int // of each of these
	bounded     int // runs of which the bounds are shown
	finding     int // runs until a lift is found
	longest     int // impressions of the longest run
}

// fullLifts is the size in the documentation.
var fullLifts = liftSize{runs: 1000, impressions: 50_000, bounded: 16, finding: 200, longest: 1_000_000}

const (
	liftLooks = 100
	liftUsers = 500
)

// look is an experiment's result at one time.
type look struct {
	impressions int
	excludes    bool    // 0 lies outside the bounds
	half        float64 // half of the bounds' distance
	refused     bool    // there are no bounds
}

type trial struct {
	control float64 // the control's share
	lift    float64
	// users: each user has a mean payoff of their own. Otherwise all share one, which drifts if drifts is set.
	users, drifts bool
	impressions   int
	every         int // impressions between looks
	// judge computes a look from the arms' sums.
	judge func(t *trial, e *experiment.Experiment, s *seen) look
	unit  unitKind
}

// unitKind is the unit of assignment.
type unitKind int

const (
	impression unitKind = iota
	user                // for good
	groups              // a group of users, between two looks
)

// seen holds a trial's sums: totals as in an experiment, and plain sums by arm.
type seen struct {
	totals experiment.Totals
	n, x   [2]float64
}

// atAnyLook uses the bounds of an experiment.
func atAnyLook(_ *trial, e *experiment.Experiment, s *seen) look {
	l := e.Bounds(e.Index("arm"), s.totals)
	return look{
		excludes: l.Verdict == experiment.Better || l.Verdict == experiment.Worse,
		half:     (l.Upper - l.Lower) / 2,
		refused:  l.Verdict == experiment.Refused,
	}
}

// atOneLook uses an interval of 1.96 standard errors of the difference of two means of payoffs of 1.
func atOneLook(_ *trial, e *experiment.Experiment, s *seen) look {
	arm, control := e.Index("arm"), e.ControlArm()
	a, c := s.x[arm]/s.n[arm], s.x[control]/s.n[control]
	half := 1.96 * math.Sqrt(a*(1-a)/s.n[arm]+c*(1-c)/s.n[control])
	return look{excludes: math.Abs(a-c) > half, half: half}
}

func (t *trial) play(seed uint64, yield func(look) (more bool)) error {
	e, err := experiment.New(experiment.Settings{
		Name: "laboratory", Run: int32(seed) + 1, ByUser: t.unit == groups, Period: 1, Control: "control",
		Arms: []experiment.Arm{{Name: "arm", Share: 1 - t.control}, {Name: "control", Share: t.control}},
	})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(seed, 18))
	p := &players{trial: t, e: e, random: random, chance: 0.3, s: seen{totals: make(experiment.Totals, 2)}}
	if t.drifts {
		p.chance = 0.4
	}
	for range liftUsers {
		p.means = append(p.means, 0.05+0.7*random.Float64())
	}
	for done := 0; done < t.impressions; done += t.every {
		p.cohort(int64(done / t.every))
		l := t.judge(t, e, &p.s)
		l.impressions = done + t.every
		if !yield(l) {
			return nil
		}
	}
	return nil
}

// players is the state of a run.
type players struct {
	*trial
	e      *experiment.Experiment
	random *rand.Rand
	chance float64
	means  []float64 // of users
	s      seen
	played int64
	unit   []byte
}

// cohort plays the impressions up to the next look, all of one period.
func (p *players) cohort(period int64) {
	by := make([]experiment.Counts, 2)
	folded := make(experiment.Groups, experiment.GroupCount)
	for range p.every {
		who := p.random.IntN(liftUsers)
		p.unit = strconv.AppendInt(p.unit[:0], int64(who), 10)
		group := experiment.GroupOf(p.unit)
		switch p.trial.unit {
		case impression:
			p.unit = strconv.AppendInt(append(p.unit[:0], "i-"...), p.played, 10)
		case groups:
			p.unit = experiment.AppendUnit(p.unit[:0], group, period, true)
		}
		p.played++
		arm := p.e.Arm(p.unit)
		x := p.payoff(who, arm)
		p.s.n[arm]++
		p.s.x[arm] += x
		by[arm] = by[arm].Add(experiment.Unit(1, 0)).Add(experiment.Of(x, 0))
		folded.Add(group, experiment.Unit(1, 0))
		folded.Add(group, experiment.Of(x, 0))
	}
	if p.trial.unit == groups {
		p.e.Fold(p.s.totals, period, folded)
		return
	}
	p.s.totals.Fold(by)
}

func (p *players) payoff(who, arm int) float64 {
	chance := p.chance
	switch {
	case p.users:
		chance = p.means[who]
	case p.drifts:
		p.chance = min(max(p.chance+0.003*p.random.NormFloat64(), 0.05), 0.75)
		chance = p.chance
	}
	if arm != p.e.ControlArm() {
		chance += p.lift
	}
	if p.random.Float64() < chance {
		return 1
	}
	return 0
}

func lifts(ctx context.Context, b *bytes.Buffer, size liftSize) error {
	if err := wrongLooks(ctx, b, size); err != nil {
		return err
	}
	if err := halves(ctx, b, size); err != nil {
		return err
	}
	return detections(ctx, b, size)
}

func (t *trial) each(ctx context.Context, runs int, begin func(), yield func(look) bool) error {
	for seed := range uint64(runs) {
		if err := ctx.Err(); err != nil {
			return err
		}
		begin()
		if err := t.play(seed, yield); err != nil {
			return err
		}
	}
	return nil
}

// wrongLooks compares arms that do not differ.
func wrongLooks(ctx context.Context, b *bytes.Buffer, size liftSize) error {
	fmt.Fprintf(b, "\n%s impressions, %d looks, %d runs, a control of 10 %%, and no difference between the arms:\n\n", config.Grouped(size.impressions), liftLooks, size.runs)
	b.WriteString("| | wrong at some look | wrong at the last look | refused at some look |\n|---|---|---|---|\n")
	for _, row := range []struct {
		name string
		trial
	}{
		{"the bounds, by impression; payoffs drift between 0.05 and 0.75", trial{drifts: true, judge: atAnyLook}},
		{"1.96 standard errors at each look, likewise", trial{drifts: true, judge: atOneLook}},
		{"the bounds over impressions, where users keep their arm", trial{users: true, unit: user, judge: atAnyLook}},
		{"the bounds over groups of the same users, drawn again with each look", trial{users: true, unit: groups, judge: atAnyLook}},
	} {
		row.control, row.impressions, row.every = 0.1, size.impressions, size.impressions/liftLooks
		var some, last, refusals int
		var wrong, refused bool
		err := row.each(ctx, size.runs, func() { wrong, refused = false, false }, func(l look) bool {
			if l.excludes && !wrong {
				wrong = true
				some++
			}
			if l.excludes && l.impressions == size.impressions {
				last++
			}
			if l.refused && !refused {
				refused = true
				refusals++
			}
			return true
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| %s | %.1f %% | %.1f %% | %.1f %% |\n", row.name, size.percent(some), size.percent(last), size.percent(refusals))
	}
	return nil
}

func (s *liftSize) percent(runs int) float64 { return 100 * float64(runs) / float64(s.runs) }

// halves reports the width of bounds.
func halves(ctx context.Context, b *bytes.Buffer, size liftSize) error {
	fmt.Fprintf(b, "\nHalf of the bounds' distance, of %d runs, payoffs of 1 with a chance of 0.3; in brackets 1.96 standard errors, for a single look:\n\n", size.bounded)
	b.WriteString("| impressions | control of 10 % | control of 50 % |\n|---|---|---|\n")
	for _, n := range []int{2_000, 10_000, 50_000, 200_000, 1_000_000} {
		n = min(n, size.longest)
		fmt.Fprintf(b, "| %s |", config.Grouped(n))
		for _, control := range []float64{0.1, 0.5} {
			var mean [2]float64
			for k, judge := range []func(*trial, *experiment.Experiment, *seen) look{atAnyLook, atOneLook} {
				t := trial{control: control, impressions: n, every: n / 100, judge: judge}
				if err := t.each(ctx, size.bounded, func() {}, func(l look) bool {
					if l.impressions == n {
						mean[k] += l.half / float64(size.bounded)
					}
					return true
				}); err != nil {
					return err
				}
			}
			fmt.Fprintf(b, " ± %.4f (%.4f) |", mean[0], mean[1])
		}
		b.WriteString("\n")
	}
	return nil
}

// detections reports the impressions until a lift is found.
func detections(ctx context.Context, b *bytes.Buffer, size liftSize) error {
	fmt.Fprintf(b, "\nImpressions until a lift is found, the median of %d runs and, in brackets, 90 %% of them; a look every 500:\n\n", size.finding)
	b.WriteString("| lift | control of 10 % | control of 50 % |\n|---|---|---|\n")
	for _, lift := range []float64{0.02, 0.04, 0.08, 0.16} {
		fmt.Fprintf(b, "| %.2f |", lift)
		for _, control := range []float64{0.1, 0.5} {
			t := trial{control: control, lift: lift, impressions: size.longest, every: 500, judge: atAnyLook}
			var found []int
			if err := t.each(ctx, size.finding, func() {}, func(l look) bool {
				if l.excludes {
					found = append(found, l.impressions)
				}
				return !l.excludes
			}); err != nil {
				return err
			}
			for len(found) < size.finding {
				found = append(found, size.longest)
			}
			slices.Sort(found)
			fmt.Fprintf(b, " %s (%s) |", config.Grouped(found[size.finding/2]), config.Grouped(found[size.finding*9/10]))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return nil
}
