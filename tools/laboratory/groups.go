package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

const groupStudy = "young groups"

// fullGroupOutlooks is the size in the documentation.
var fullGroupOutlooks = outlookSize{runs: 1000, days: 60}

// Settings of users' sessions. A session is within one period of an hour.
const (
	sessionUsers = 3000
	sessionMean  = 5 // impressions, geometric
	sessionHour  = 3_600_000
	betweenUsers = 0.3 // share of the variance of a payoff
	busy         = 4   // times the impressions, where there is a lift
)

// groupRules say whether an arm is better, by user.
const (
	groupDeadlines = iota // the exact bounds of groups past their deadlines
	groupHorizon          // the run-off at the horizon
	groupOutlook          // the run-off's lower bound before the horizon
	groupBlind            // the same, as if impressions were independent
	groupRules
)

var groupRuleNames = [groupRules]string{"by deadlines", "run-off at the horizon", "in the end", "in the end, impressions counted as independent"}

// sessions are the impressions and payoffs of users who come back.
type sessions struct {
	*outlookWorld
	*site
	e       *experiment.Experiment
	random  *rand.Rand
	chances []float64 // of users
	groups  []int
	units   experiment.RunOffs
	blind   *experiment.RunOff
	totals  experiment.Totals
	periods map[int64]experiment.Groups
	folded  int64
}

// sessions begins a run. A user's chance of a payoff is high or 0.
func (w *outlookWorld) sessions(s *site, seed uint64) (*sessions, error) {
	settings := experiment.Settings{Name: "laboratory", Run: int32(seed) + 1, ByUser: true, Period: sessionHour, Control: "control",
		Arms: []experiment.Arm{{Name: "arm", Share: 1 - s.control}, {Name: "control", Share: s.control}}}
	e, err := experiment.New(settings)
	if err != nil {
		return nil, err
	}
	x := &sessions{outlookWorld: w, site: s, e: e, random: rand.New(rand.NewPCG(seed, 40)), units: e.NewRunOffs(outlookHorizon),
		blind: experiment.NewRunOff(2, outlookHorizon), totals: make(experiment.Totals, 2), periods: map[int64]experiment.Groups{}, folded: -1}
	for k := range sessionUsers {
		high, chance := s.chance+betweenUsers*(1-s.chance), 0.0
		if x.random.Float64() < s.chance/high {
			chance = high
		}
		x.chances = append(x.chances, chance)
		x.groups = append(x.groups, experiment.GroupOf(fmt.Append(nil, k)))
	}
	return x, nil
}

// bucket plays a bucket's sessions.
func (x *sessions) bucket(b, width int64) {
	each := int64(float64(day) * sessionMean / (float64(x.daily) * max(x.traffic, 1)))
	for at := b * width; at < (b+1)*width; at += each {
		user := x.random.IntN(sessionUsers)
		group, period := x.groups[user], experiment.PeriodOf(at, sessionHour)
		arm := x.e.Arm(experiment.AppendUnit(nil, group, period, true))
		chance, law := x.chances[user], x.outlookWorld.control
		if arm != x.e.ControlArm() {
			law = x.arm
			if x.outlookWorld.lift {
				chance += x.site.lift / (1 - x.site.chance) * (1 - chance) // turns misses into payoffs
			}
		}
		if x.periods[period] == nil {
			x.periods[period] = make(experiment.Groups, experiment.GroupCount)
		}
		r, _ := x.units.Of(group)
		for more := true; more; more = x.random.Float64() > 1.0/sessionMean {
			x.periods[period].Add(group, experiment.Unit(1, 0))
			for _, to := range []*experiment.RunOff{r, x.blind} {
				to.Enter(arm, at, experiment.Unit(1, 0))
			}
			if x.random.Float64() >= chance {
				continue
			}
			paid := at + law.draw(x.random)
			x.periods[period].Add(group, experiment.Of(1, 0))
			for _, to := range []*experiment.RunOff{r, x.blind} {
				to.Pay(arm, at, paid, experiment.PaidInParts(0, 1, 0, true))
			}
		}
	}
	end := (b + 1) * width
	x.units.EndUpTo(end)
	x.blind.EndUpTo(end)
	for last := experiment.PeriodOf(end-outlookHorizon, sessionHour) - 1; x.folded < last; {
		if x.folded++; x.periods[x.folded] != nil {
			x.e.Fold(x.totals, x.folded, x.periods[x.folded])
			delete(x.periods, x.folded)
		}
	}
}

// playUsers plays a run by user. It ends once all rules named have said better.
func (w *outlookWorld) playUsers(s *site, seed uint64, days int, h *experiment.History, until ...int) (out said, err error) {
	x, err := w.sessions(s, seed)
	if err != nil {
		return out, err
	}
	settings := x.e.Settings
	settings.ByUser = false
	impressions, err := experiment.New(settings)
	if err != nil {
		return out, err
	}
	arm, width := x.e.Index("arm"), experiment.BucketWidth(outlookHorizon)
	for b := int64(0); (b+1)*width <= int64(days)*day; b++ {
		x.bucket(b, width)
		lags, blind := x.e.NewLagTotals(), experiment.NewLagTotals(2)
		lags.AddAll(x.units)
		blind.Add(x.blind)
		o, ended, wrong := x.e.Outlook(arm, lags, h, ""), x.e.Outlook(arm, lags, nil, ""), impressions.Outlook(arm, blind, h, "")
		out.note(float64((b+1)*width)/day, &o, x.e.Lift(arm, x.totals).Verdict, ended.End.Verdict, o.End.Verdict, wrong.End.Verdict)
		if out.foundBy(until) {
			break
		}
	}
	return out, nil
}

// groupOutlooks writes the tables.
func groupOutlooks(ctx context.Context, b *bytes.Buffer, size outlookSize) error {
	c := comparison{names: groupRuleNames[:], shown: groupBlind, worlds: outlookWorlds()[:3],
		lifted: outlookWorld{arm: fiveDays, control: fiveDays, lift: true, traffic: busy},
		until:  []int{groupDeadlines, groupHorizon, groupOutlook}, play: (*outlookWorld).playUsers}
	fmt.Fprintf(b, "\nNo lift: how many of %d runs say *better* at some look until day %d. Last columns, also at some look: *worse* in the end; refused before the "+
		"deadlines since the control is not as late as in its history; *ahead* or *behind*.\n\n", size.runs, size.days)
	if err := c.wrong(ctx, b, size); err != nil {
		return err
	}
	fmt.Fprintf(b, "\nA lift, with %d times the impressions: the day on which *better* is said, the median of %d runs and, in brackets, 90 %% of them:\n\n",
		busy, size.runs)
	return c.found(ctx, b, size)
}
