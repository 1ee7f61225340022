package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/policy/confidence"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// Time in days and in milliseconds.
const (
	day            = 86_400_000
	outlookHorizon = 30 * day
	outlookDays    = 90
)

const outlookStudy = "outlooks"

// outlookSize is the size of the study of estimates before the horizon.
type outlookSize struct{ runs, days int }

// fullOutlooks is the size in the documentation.
var fullOutlooks = outlookSize{runs: 1000, days: outlookDays}

// site is the traffic of an experiment.
type site struct {
	name    string
	control float64 // its share
	chance  float64 // of a payoff of 1
	lift    float64
	daily   int // impressions
}

var sites = []site{
	{"A", 0.1, 0.3, 0.04, 1000},
	{"B", 0.5, 0.1, 0.02, 1000},
}

// delayLaw draws a payoff's delay in days. It is drawn again until it is within the horizon.
type delayLaw func(*rand.Rand) float64

func exponential(mean float64) delayLaw {
	return func(r *rand.Rand) float64 { return mean * r.ExpFloat64() }
}

func lognormal(median, sigma float64) delayLaw {
	return func(r *rand.Rand) float64 { return median * math.Exp(sigma*r.NormFloat64()) }
}

// bimodal pays half at once, and half after a fortnight.
func bimodal(r *rand.Rand) float64 {
	if r.Uint64()&1 == 0 {
		return 0.5 * r.ExpFloat64()
	}
	return math.Abs(14 + 2*r.NormFloat64())
}

func (d delayLaw) draw(r *rand.Rand) int64 {
	for {
		if x := int64(d(r) * day); x <= outlookHorizon {
			return x
		}
	}
}

// history returns the law as a learner would have learned it, of many payoffs.
func (d delayLaw) history() *experiment.History {
	const draws = 200_000
	r := rand.New(rand.NewPCG(38, 38))
	ages := make([]int64, draws)
	for k := range ages {
		ages[k] = d.draw(r)
	}
	slices.Sort(ages)
	return experiment.HistoryOf(outlookHorizon, func(age int64) float64 {
		n, _ := slices.BinarySearch(ages, age+1)
		return float64(n) / draws
	})
}

// outlookWorld is a world in which arms are compared.
type outlookWorld struct {
	name          string
	arm, control  delayLaw
	drift, weekly bool
	learned       delayLaw // the history; nil: the control's law
	lift          bool
	traffic       float64 // a multiple of the site's
	parts         int     // a payoff comes in so many equal parts, each when it will; 0: whole
}

var fiveDays = exponential(5)

func outlookWorlds() []outlookWorld {
	return []outlookWorld{
		{name: "A/A", arm: fiveDays, control: fiveDays},
		{name: "the arm pays twice as fast", arm: exponential(2.5), control: fiveDays},
		{name: "the arm pays half as fast", arm: exponential(10), control: fiveDays},
		{name: "lognormal delays", arm: lognormal(3, 1), control: lognormal(3, 1)},
		{name: "half at once, half after two weeks", arm: bimodal, control: bimodal},
		{name: "chances drift", arm: fiveDays, control: fiveDays, drift: true},
		{name: "chances swing by half each week", arm: fiveDays, control: fiveDays, weekly: true},
		{name: "a twentieth of the traffic, twice as fast", arm: exponential(2.5), control: fiveDays, traffic: 0.05},
		{name: "all pay later than history, the arm twice as fast", arm: exponential(5), control: exponential(10), learned: fiveDays},
		{name: "A/A, a payoff in five parts", arm: fiveDays, control: fiveDays, parts: 5},
		{name: "a payoff in five parts, the arm pays twice as fast", arm: exponential(2.5), control: fiveDays, parts: 5},
	}
}

// rules say whether an arm is better, each in its own way.
const (
	ruleDeadlines = iota // the exact bounds of units past their deadlines
	ruleHorizon          // the run-off at the horizon
	ruleOutlook          // the run-off's lower bound before the horizon
	ruleCovariateDeadlines
	ruleCovariate // these two with a covariate that explains half the variance
	ruleNaive     // payoffs so far by unit
	ruleEqual     // both arms pay as late as history says
	rules
)

var ruleNames = [rules]string{"by deadlines", "run-off at the horizon", "in the end", "by deadlines, with a covariate", "in the end, with a covariate",
	"payoffs so far, counted naively", "equal lateness assumed"}

// said is a run's outcome: the day on which each rule first said better or worse, 0 for never, and whether the others were said at some look.
type said struct {
	better, worse         []float64
	refused               bool // before the deadlines, by the control's lateness
	timing, ahead, behind bool
}

// note notes each rule's answer at a look, and those of an outlook.
func (s *said) note(at float64, o *experiment.Outlook, answers ...experiment.Verdict) {
	if s.better == nil {
		s.better, s.worse = make([]float64, len(answers)), make([]float64, len(answers))
	}
	for rule, v := range answers {
		if v == experiment.Better && s.better[rule] == 0 {
			s.better[rule] = at
		}
		if v == experiment.Worse && s.worse[rule] == 0 {
			s.worse[rule] = at
		}
	}
	s.refused = s.refused || o.End.Verdict == experiment.Refused && strings.Contains(o.End.Why, "does not pay as late")
	s.timing = s.timing || o.Timing == experiment.Sooner || o.Timing == experiment.Later
	s.ahead, s.behind = s.ahead || o.Ahead() == "ahead", s.behind || o.Ahead() == "behind"
}

// foundBy reports whether all of at least one rule have said better.
func (s *said) foundBy(rules []int) bool {
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(rule int) bool { return s.better[rule] == 0 })
}

// play plays a run. It ends once the rules named have all said better.
func (w *outlookWorld) play(s *site, seed uint64, days int, h *experiment.History, until ...int) (out said, err error) {
	e, err := experiment.New(experiment.Settings{Name: "laboratory", Run: 1, Control: "control", InParts: w.parts > 0,
		Arms: []experiment.Arm{{Name: "arm", Share: 1 - s.control}, {Name: "control", Share: s.control}}})
	if err != nil {
		return out, err
	}
	r := rand.New(rand.NewPCG(seed, 38))
	arm, control := e.Index("arm"), e.ControlArm()
	blind, seeing := newSums(), newSums()
	ages := make([]int64, max(w.parts, 1))
	forZ := rand.New(rand.NewPCG(seed, 39))
	width := experiment.BucketWidth(outlookHorizon)
	traffic := w.traffic
	if traffic == 0 {
		traffic = 1
	}
	each := int64(float64(day) / (float64(s.daily) * traffic))
	drift, began := 1.0, int64(0)
	for b := int64(0); (b+1)*width <= int64(days)*day; b++ {
		for ; began < (b+1)*width; began += each {
			chance, k, law, lift := s.chance, arm, w.arm, 0.0
			if r.Float64() < s.control {
				k, law = control, w.control
			} else if w.lift {
				lift = s.lift
			}
			factor := 1.0
			if w.drift {
				drift = min(max(drift+0.002*r.NormFloat64(), 0.5), 1.5)
				factor = drift
			}
			if w.weekly {
				factor *= 1 + 0.5*math.Sin(2*math.Pi*float64(began)/(7*day))
			}
			chance = chance*factor + lift
			var parts []int64
			if r.Float64() < chance {
				parts = ages
			}
			for p := range parts {
				parts[p] = law.draw(r)
			}
			slices.Sort(parts)
			blind.add(k, began, 0, parts)
			seeing.add(k, began, s.covariate(forZ, factor, lift, parts != nil), parts)
		}
		blind.endUpTo((b + 1) * width)
		seeing.endUpTo((b + 1) * width)
		w.look(e, blind, seeing, h, float64((b+1)*width)/day, &out)
		if out.foundBy(until) {
			break
		}
	}
	return out, nil
}

// outlookSums are the sums of a run's units by age and by deadline.
type outlookSums struct {
	runOff  *experiment.RunOff
	totals  experiment.Totals
	cohorts [][]experiment.Counts // by bucket, the last one open
}

func newSums() *outlookSums {
	return &outlookSums{experiment.NewRunOff(2, outlookHorizon), make(experiment.Totals, 2), [][]experiment.Counts{make([]experiment.Counts, 2)}}
}

// add adds a unit with its covariate z. If it is paid, equal parts of its payoff of 1 come at ages.
func (s *outlookSums) add(arm int, began int64, z float64, ages []int64) {
	open := s.cohorts[len(s.cohorts)-1]
	s.runOff.Enter(arm, began, experiment.Unit(1, z))
	open[arm] = open[arm].Add(experiment.Unit(1, z))
	n := float64(len(ages))
	for k, age := range ages {
		s.runOff.Pay(arm, began, began+age, experiment.PaidInParts(float64(k)/n, float64(k+1)/n, z, true))
	}
	if len(ages) > 0 {
		open[arm] = open[arm].Add(experiment.Of(1, z))
	}
}

// endUpTo ends a bucket, and folds the units whose deadlines it passes.
func (s *outlookSums) endUpTo(at int64) {
	s.runOff.EndUpTo(at)
	if n := len(s.cohorts); n >= experiment.Lags {
		s.totals.Fold(s.cohorts[n-experiment.Lags])
	}
	s.cohorts = append(s.cohorts, make([]experiment.Counts, 2))
}

func (s *outlookSums) lags() experiment.LagTotals {
	lags := experiment.NewLagTotals(2)
	lags.Add(s.runOff)
	return lags
}

// covariate draws a unit's covariate. Without lift it is the unit's chance of a payoff, high or 0, and explains half of the variance. It is drawn
// behind the payoff, by Bayes' rule, so that payoffs are those without it. A factor multiplies chances; a lift turns misses into payoffs.
func (s *site) covariate(r *rand.Rand, factor, lift float64, paid bool) float64 {
	high := (1 + s.chance) / 2 // p·(high−p) = p·(1−p)/2
	share := s.chance / high
	all, these := s.chance*factor, high*factor
	lift /= 1 - all
	all, these = all+lift*(1-all), these+lift*(1-these)
	if !paid {
		all, these = 1-all, 1-these
	}
	if r.Float64() < share*these/all {
		return high
	}
	return 0
}

// look notes each rule's answer at a look.
func (w *outlookWorld) look(e *experiment.Experiment, blind, seeing *outlookSums, h *experiment.History, at float64, out *said) {
	lags, with := blind.lags(), seeing.lags()
	arm := e.Index("arm")
	o, ended, seen := e.Outlook(arm, lags, h, ""), e.Outlook(arm, lags, nil, ""), e.Outlook(arm, with, h, "")
	naive, equal := shortcuts(e, lags, h)
	out.note(at, &o, e.Lift(arm, blind.totals).Verdict, ended.End.Verdict, o.End.Verdict, e.Lift(arm, seeing.totals).Verdict, seen.End.Verdict, naive, equal)
}

// shortcuts are two ways that do not hold: to count payoffs so far by unit, and to scale them up by one history of delays for both arms. Both
// use bounds for all times.
func shortcuts(e *experiment.Experiment, t experiment.LagTotals, h *experiment.History) (naive, equal experiment.Verdict) {
	var n, x, exposed [2]float64
	for i, k := range []int{e.Index("arm"), e.ControlArm()} {
		come := 0.0
		for l := experiment.Lags - 1; l >= 0; l-- {
			units := float64(t[k].Entered[l].N)
			n[i] += units
			x[i] += float64(t[k].Paid[l].X) / (1 << 20)
			come = units * h[l]
			exposed[i] += come
		}
	}
	judge := func(of [2]float64) experiment.Verdict {
		if min(x[0], x[1]) < 50 {
			return experiment.Open
		}
		mean := (x[0] + x[1]) / (of[0] + of[1])
		share := [2]float64{e.Arms[e.Index("arm")].Share, e.Arms[e.ControlArm()].Share}
		r := confidence.NewNormal(experiment.Alpha, mean*(1-mean)*(1/share[0]+1/share[1])/5000).Radius(mean/of[0] + mean/of[1])
		switch d := x[0]/of[0] - x[1]/of[1]; {
		case d > r:
			return experiment.Better
		case d < -r:
			return experiment.Worse
		}
		return experiment.Open
	}
	return judge(n), judge(exposed)
}

// comparison is a study of rules.
type comparison struct {
	names  []string // of the rules; those from shown on are left out where a lift is found
	shown  int
	worlds []outlookWorld
	lifted outlookWorld
	until  []int // a run with a lift ends once these have found it
	timing bool  // has a column for it
	play   func(w *outlookWorld, s *site, seed uint64, days int, h *experiment.History, until ...int) (said, error)
}

// each plays the runs of a world.
func (c *comparison) each(ctx context.Context, w *outlookWorld, s *site, size outlookSize, until []int, yield func(*said)) error {
	law := w.learned
	if law == nil {
		law = w.control
	}
	h := law.history()
	for seed := range uint64(size.runs) {
		if err := ctx.Err(); err != nil {
			return err
		}
		run, err := c.play(w, s, seed, size.days, h, until...)
		if err != nil {
			return err
		}
		yield(&run)
	}
	return nil
}

// wrong writes how often rules say better without a lift, a row for each world.
func (c *comparison) wrong(ctx context.Context, b *bytes.Buffer, size outlookSize) error {
	timing, more := "", 3
	if c.timing {
		timing, more = " timing |", 4
	}
	fmt.Fprintf(b, "| site | world |%s worse | refused |%s ahead, behind |\n|---|---|%s\n", columns(c.names), timing, strings.Repeat("---|", len(c.names)+more))
	for k := range sites {
		for i := range c.worlds {
			w, wrong := &c.worlds[i], make([]int, len(c.names))
			var worse, refused, timing, ahead, behind int
			err := c.each(ctx, w, &sites[k], size, nil, func(run *said) {
				for rule, at := range run.better {
					wrong[rule] += one(at > 0)
				}
				worse += one(run.worse[ruleOutlook] > 0) // groupOutlook is the same number
				refused, timing, ahead, behind = refused+one(run.refused), timing+one(run.timing), ahead+one(run.ahead), behind+one(run.behind)
			})
			if err != nil {
				return err
			}
			percent := func(n int) string { return fmt.Sprintf(" %.1f", 100*float64(n)/float64(size.runs)) }
			fmt.Fprintf(b, "| %s | %s |", sites[k].name, w.name)
			for _, n := range append(wrong, worse, refused) {
				b.WriteString(percent(n) + " % |")
			}
			if c.timing {
				b.WriteString(percent(timing) + " % |")
			}
			b.WriteString(percent(ahead) + "," + percent(behind) + " % |\n")
		}
	}
	return nil
}

// found writes the day on which rules find a lift, a row for each site.
func (c *comparison) found(ctx context.Context, b *bytes.Buffer, size outlookSize) error {
	fmt.Fprintf(b, "| |%s\n|---|%s\n", columns(c.names[:c.shown]), strings.Repeat("---|", c.shown))
	for k := range sites {
		s, found := &sites[k], make([][]float64, c.shown)
		err := c.each(ctx, &c.lifted, s, size, c.until, func(run *said) {
			for rule := range found {
				at := run.better[rule]
				if at == 0 {
					at = math.Inf(1)
				}
				found[rule] = append(found[rule], at)
			}
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| %s: control %.0f %%, payoff %.1f, lift %.2f, %.0f impressions a day |", s.name, 100*s.control, s.chance, s.lift,
			max(c.lifted.traffic, 1)*float64(s.daily))
		for _, days := range found {
			slices.Sort(days)
			fmt.Fprintf(b, " %.0f (%.0f) |", days[size.runs/2], days[size.runs*9/10])
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return nil
}

func columns(names []string) string { return " " + strings.Join(names, " | ") + " |" }

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// outlooks writes the tables.
func outlooks(ctx context.Context, b *bytes.Buffer, size outlookSize) error {
	c := comparison{names: ruleNames[:], shown: ruleNaive, worlds: outlookWorlds(), lifted: outlookWorld{arm: fiveDays, control: fiveDays, lift: true},
		until: []int{ruleDeadlines, ruleHorizon, ruleOutlook, ruleCovariateDeadlines, ruleCovariate}, timing: true, play: (*outlookWorld).play}
	fmt.Fprintf(b, "\nNo lift: how many of %d runs say *better* at some look until day %d. Last columns, also at some look: *worse* in the end; "+
		"refused before the deadlines since the control is not as late as in its history; pays *sooner* or *later*; *ahead* or *behind*.\n\n", size.runs, size.days)
	if err := c.wrong(ctx, b, size); err != nil {
		return err
	}
	fmt.Fprintf(b, "\nA lift: the day on which *better* is said, the median of %d runs and, in brackets, 90 %% of them:\n\n", size.runs)
	return c.found(ctx, b, size)
}
