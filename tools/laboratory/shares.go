package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

const shareStudy = "shares"

// shareSize is the size of the study of shared learning.
type shareSize struct{ runs, impressions int } // impressions with each share

var fullShares = shareSize{runs: 100, impressions: 20_000}

// sharedWorld has two arms that decide by the statistics of the control. Of 10 items, the users' favourite pays with probability 0.4, one
// other with 0.9 and the rest with 0.1. Each user looks at one item more with probability 0.7, and takes the favourite among these. After every 40 impressions there are 10 new items.
type sharedWorld struct {
	know   delay.Readable
	by     [2]policy.Policy // by arm in the order of names: arm, control
	random *rand.Rand
	done   int
	best   int32 // of the present items
	items  []policy.Item
}

const (
	sharedItems = 10
	sharedEpoch = 40
)

func newSharedWorld(seed uint64, arm, control string) (*sharedWorld, error) {
	w := &sharedWorld{random: rand.New(rand.NewPCG(seed, 38)), items: make([]policy.Item, sharedItems)}
	var all [2]config.Learner
	for k, name := range []string{arm, control} {
		var err error
		if all[k], _, err = config.ReadLearner("learner", true, []config.Setting{{"payoffs", "stochastic"}, {"policy", name}, {"silence", "waits"}}); err != nil {
			return nil, err
		}
		if w.by[k], err = learners.Policy(&all[k]); err != nil {
			return nil, err
		}
	}
	made, err := learners.New(&all[1])
	if err != nil {
		return nil, err
	}
	w.know = made().(delay.Readable)
	return w, nil
}

// visit lets a user look at the ranking of an arm, and returns the payoff.
func (w *sharedWorld) visit(arm int) float64 {
	if w.done%sharedEpoch == 0 {
		for i := range w.items {
			w.items[i] = policy.Item(w.done/sharedEpoch*sharedItems + i)
		}
		w.know.Grow(w.done/sharedEpoch*sharedItems + sharedItems)
		w.best = int32(w.random.IntN(sharedItems - 1))
	}
	w.done++
	var d delay.Decision
	w.know.DecideBy(w.by[arm], w.items, nil, policy.Key(w.random.Uint64()), &d)
	taken := d.Order[0]
	for k := 1; k < sharedItems && w.random.Float64() < 0.7; k++ { // the user looks further
		taken = max(taken, d.Order[k])
	}
	chance := 0.1
	switch taken {
	case w.best:
		chance = 0.9
	case sharedItems - 1:
		chance = 0.4
	}
	fb := delay.Feedback{Ref: int64(w.done), Item: w.items[taken]}
	w.know.Selected(fb)
	if w.random.Float64() < chance {
		fb.Payoff = 1
	}
	w.know.Paid(fb)
	return fb.Payoff
}

// run plays impressions with a share of the arm.
func (w *sharedWorld) run(seed uint64, run int32, share float64, impressions int) (experiment.RunTotals, error) {
	e, err := experiment.New(experiment.Settings{Name: "laboratory-" + strconv.FormatUint(seed, 10), Run: run, Control: "control",
		Arms: []experiment.Arm{{Name: "arm", Share: share}, {Name: "control", Share: 1 - share}}})
	if err != nil {
		return experiment.RunTotals{}, err
	}
	t := make(experiment.Totals, 2)
	for n := 0; n < impressions; {
		by := make([]experiment.Counts, 2)
		for range impressions / liftLooks {
			arm := e.Arm(strconv.AppendInt([]byte("i-"), int64(n), 10))
			by[arm] = by[arm].Add(experiment.Unit(1, 0)).Add(experiment.Of(w.visit(arm), 0))
			n++
		}
		t.Fold(by)
	}
	return experiment.RunTotals{Experiment: e, Totals: t}, nil
}

// shares plays each world with two shares, one after the other.
func shares(ctx context.Context, b *bytes.Buffer, size shareSize) error {
	fmt.Fprintf(b, "\n| arm | control | lift with 10 %%: mean | better, worse | with 50 %%: mean | better, worse | refused, of %d runs |\n|---|---|---|---|---|---|---|\n", size.runs)
	for _, world := range [][2]string{{"moss", "utility"}, {"moss", "moss"}} {
		var lift [2]float64
		var found [2][experiment.Refused + 1]int
		refused := 0
		for seed := range uint64(size.runs) {
			if err := ctx.Err(); err != nil {
				return err
			}
			w, err := newSharedWorld(seed, world[0], world[1])
			if err != nil {
				return err
			}
			var all []experiment.RunTotals
			for k, share := range []float64{0.1, 0.5} {
				r, err := w.run(seed, int32(k+1), share, size.impressions)
				if err != nil {
					return err
				}
				l := r.Lift(0, r.Totals)
				lift[k] += l.Estimate / float64(size.runs)
				found[k][l.Verdict]++
				all = append(all, r)
			}
			if _, differ := experiment.AtShares("arm", all); differ {
				refused++
			}
		}
		fmt.Fprintf(b, "| `%s` | `%s`", world[0], world[1])
		for k := range lift {
			fmt.Fprintf(b, " | %+.3f | %d, %d", lift[k], found[k][experiment.Better], found[k][experiment.Worse])
		}
		fmt.Fprintf(b, " | %d |\n", refused)
	}
	b.WriteString("\n")
	return nil
}
