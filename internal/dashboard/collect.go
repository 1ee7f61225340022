package dashboard

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Source is the worker that a Dashboard shows: a stream.Worker.
type Source interface {
	ID() string
	Group() string
	Learners() []partition.LearnerConfig
	Seen() map[int32]stream.Observed
	Outside() string // why it stays outside of its group; "": it does not
	LookAgain(from int32, n int) (next int32)
	Now() int64 // its clock, in milliseconds
}

// Counters are the worker's counters: stream.Metrics.
type Counters interface {
	Totals() stream.Totals
	Learners() map[string]stream.LearnerTotal
	Letters() []stream.Letter
}

var (
	_ Source   = (*stream.Worker)(nil)
	_ Counters = (*stream.Metrics)(nil)
)

// collect makes the worker's own summary, without values over time. See Options for remember.
func collect(source Source, counters Counters, remember int64) Summary {
	s := Summary{Form: form, ID: source.ID(), Outside: clip(source.Outside(), wordsRunes), Rankings: []Ranking{}, DeadLetters: []Letter{}, Partitions: []Partition{}, Learners: []Learner{}}
	seen := source.Seen()
	now := source.Now()
	var account partition.Account
	learners := map[string]*Learner{}
	for _, c := range source.Learners() {
		learners[c.Name] = &Learner{Name: clipName(c.Name), Policy: c.PolicyName, Delay: c.DelayName, PayoffRange: [2]float64{c.PayoffMin, c.PayoffMax},
			Horizon: float64(c.PayoffHorizon) / 1000, Timeout: float64(c.SelectionTimeout) / 1000,
			Undecided: -1, TopItems: []Item{}}
	}
	for _, number := range slices.Sorted(maps.Keys(seen)) {
		p := seen[number]
		s.list(partitionOf(number, &p, now))
		if p.Status != nil {
			account = account.Plus(p.Status.Account)
			s.addExperiments(p.Status.Experiments, learners)
			for i := range p.Status.Learners {
				one := &p.Status.Learners[i]
				if l := learners[one.Name]; l != nil && !one.Gone {
					l.merge(figuresOf(one))
				}
			}
		}
		s.addLook(number, p.Look, learners)
	}
	s.Account = account.Named()
	for name, total := range counters.Learners() {
		if l := learners[name]; l != nil {
			l.Counts = countsOf(&total)
		}
	}
	for _, c := range source.Learners() {
		learners[c.Name].sortItems()
		s.Learners = append(s.Learners, *learners[c.Name])
	}
	for i := range s.Rankings {
		s.Rankings[i].Until += remember
	}
	s.Rankings = slices.DeleteFunc(s.Rankings, func(r Ranking) bool { return r.Until <= now })
	slices.SortStableFunc(s.Rankings, func(a, b Ranking) int { return cmp.Compare(b.Time, a.Time) })
	letters := counters.Letters()
	slices.Reverse(letters)
	for _, l := range letters {
		s.DeadLetters = append(s.DeadLetters, Letter{l.At.UnixMilli(), l.Topic, l.Partition, l.Offset, l.Reason, clip(l.Detail, wordsRunes)})
	}
	return s
}

func partitionOf(number int32, p *stream.Observed, now int64) Partition {
	one := Partition{Number: number, Phase: task.Acquiring.String(), Waits: clip(p.Waits, wordsRunes)}
	s := p.Status
	if s == nil {
		return one
	}
	one.Phase, one.Lag, one.Unsaved = s.Phase.String(), s.Lag, s.Unsaved
	one.Pending, one.Parked = s.Account.Impressions.Pending, s.Account.Selections.Parked+s.Account.Payoffs.Parked
	if s.Watermark > 0 {
		lag := max(0, float64(now-s.Watermark)/1000)
		one.EventTimeLag = &lag
	}
	return one
}

// figuresOf returns a learner's figures in one partition.
func figuresOf(s *partition.LearnerStatus) *Learner {
	i := &s.Account.Impressions
	l := &Learner{PerImpression: s.Attraction.Learned, Ranked: s.Account.Read[event.Impressions], Resolved: i.Paid + i.Defaulted + i.Expired, Left: i.Unselected,
		Fed: s.Fed, Warmed: s.Account.Warmed, Items: int64(s.Items), Awaited: s.Flights, Queued: s.Queued, Instances: s.Instances,
		Undecided: -1, Windows: s.Windows, WindowSelections: s.Selections}
	if s.OnHold {
		l.OnHold, l.HoldItem = 1, clipName(s.HoldItem)
	}
	if s.FindsUtilities {
		l.Undecided = s.UndecidedPairs
	}
	if k := &s.Silence; k.Law != delay.SilenceWaits {
		l.Silence = &Silence{k.Weight, k.Known, k.Seen, k.Share, float64(k.Median) / 1000, float64(k.P90) / 1000}
	}
	return l
}

// merge adds the figures of other partitions. A pooled estimate is the most recent where it has the most payoffs.
func (l *Learner) merge(o *Learner) {
	l.Rule, l.PerImpression = cmp.Or(l.Rule, o.Rule), l.PerImpression || o.PerImpression
	if o.Silence != nil {
		sum := Silence{}
		if l.Silence != nil {
			sum = *l.Silence
		}
		weight := sum.Weight + o.Silence.Weight
		if o.Silence.Known && (!sum.Known || o.Fed > l.Fed) {
			sum = *o.Silence
		}
		sum.Weight = weight
		l.Silence = &sum
	}
	if o.Depends != nil && (l.Depends == nil || o.Depends.Payoffs > l.Depends.Payoffs) {
		l.Depends = o.Depends
	}
	if o.Windows != nil && (l.Windows == nil || o.WindowSelections > l.WindowSelections) {
		l.Windows, l.WindowSelections = o.Windows, o.WindowSelections
	}
	l.Fed, l.Warmed = max(l.Fed, o.Fed), l.Warmed+o.Warmed
	l.Coming = max(l.Coming, o.Coming)
	l.Ranked, l.Resolved, l.Left = l.Ranked+o.Ranked, l.Resolved+o.Resolved, l.Left+o.Left
	l.Items += o.Items
	l.Awaited += o.Awaited
	l.Queued += o.Queued
	l.Instances += o.Instances
	if o.OnHold > 0 {
		l.OnHold, l.HoldItem = l.OnHold+o.OnHold, cmp.Or(o.HoldItem, l.HoldItem) // an unserved worker names none
	}
	if o.Undecided >= 0 {
		l.Undecided = max(0, l.Undecided) + o.Undecided
	}
	l.Counts = l.Counts.plus(o.Counts)
	l.Decisions += o.Decisions
	l.Favourites += o.Favourites
	for _, i := range o.TopItems {
		l.TopItems = mergeItem(l.TopItems, i)
	}
}

// addLook adds a partition's sample.
func (s *Summary) addLook(number int32, look *partition.Sample, learners map[string]*Learner) {
	if look == nil {
		return
	}
	for i := range look.Learners {
		k := &look.Learners[i]
		l := learners[k.Name]
		if l == nil {
			continue
		}
		l.merge(sampleOf(k))
		if k.Ranking != nil {
			s.Rankings = append(s.Rankings, rankingOf(number, l, k.Ranking))
		}
	}
}

func sampleOf(k *partition.LearnerSample) *Learner {
	l := &Learner{Rule: clip(k.Rule, wordsRunes), Decisions: float64(k.First), Favourites: float64(k.Favourite), Coming: k.Coming, Undecided: -1, Depends: dependsOf(k)}
	for _, i := range k.Items {
		e := &i.Evidence
		l.TopItems = append(l.TopItems, Item{clipName(i.Name), float64(i.First), float64(i.Favourite), e.W, e.R, e.Q, e.Open})
	}
	return l
}

// mergeItem adds an item to a list, or merges it. The evidence with the most payoffs counts: pooled evidence is in every partition.
func mergeItem(all []Item, i Item) []Item {
	at := slices.IndexFunc(all, func(o Item) bool { return o.Name == i.Name })
	if at < 0 {
		return append(all, i)
	}
	o := &all[at]
	o.First += i.First
	o.Favourite += i.Favourite
	if i.W > o.W {
		o.W, o.R, o.Q, o.Open = i.W, i.R, i.Q, i.Open
	}
	return all
}

// sortItems sorts by how often an item is shown first, or is the favourite.
func (l *Learner) sortItems() {
	slices.SortFunc(l.TopItems, func(a, b Item) int {
		return cmp.Or(cmp.Compare(max(b.First, b.Favourite), max(a.First, a.Favourite)), cmp.Compare(a.Name, b.Name))
	})
	l.TopItems = first(l.TopItems, mostItems)
}

func rankingOf(number int32, l *Learner, k *partition.RankingSample) Ranking {
	r := Ranking{ID: clipName(k.ID), Learner: l.Name, Partition: number, Offset: k.Offset, Time: k.Time, Until: k.Time + int64(1000*l.Horizon), Explored: k.Explored,
		Candidates: k.Candidates}
	low, high := l.PayoffRange[0], l.PayoffRange[1]
	for i := range k.Shown {
		s := &k.Shown[i]
		r.Shown = append(r.Shown, Shown{clipName(s.Name), s.Rank, s.Evidence.W, low + (high-low)*s.Evidence.Mean(), s.Propensity, s.Leader})
	}
	return r
}

func countsOf(t *stream.LearnerTotal) Counts {
	i := &t.Account.Impressions
	return Counts{Value: t.Value, Ended: i.Paid + i.Defaulted + i.Expired + i.Unselected, Joined: t.Account.Selections.Joined, Unselected: i.Unselected}
}

// past keeps the worker's totals of the last ticks.
type past struct {
	at     []time.Time
	totals []stream.Totals
}

// over is the number of ticks that rates and latencies cover.
const over = 10

// add adds a tick, and sets the rates and latencies of s.
func (p *past) add(now time.Time, t stream.Totals, s *Summary) {
	p.at, p.totals = append(p.at, now), append(p.totals, t)
	if extra := len(p.at) - over - 1; extra > 0 {
		p.at, p.totals = slices.Delete(p.at, 0, extra), slices.Delete(p.totals, 0, extra)
	}
	before := &p.totals[0]
	s.Latencies = slices.Clone(t.Latencies)
	for k := range s.Latencies {
		s.Latencies[k] -= before.Latencies[k]
	}
	if seconds := now.Sub(p.at[0]).Seconds(); seconds > 0 {
		s.Rates = Rates{(t.Read[0] - before.Read[0]) / seconds, (t.Read[1] - before.Read[1]) / seconds,
			(t.Read[2] - before.Read[2]) / seconds, (t.Rankings - before.Rankings) / seconds}
	}
}

// shownEffects bounds the features shown.
const shownEffects = 16

func dependsOf(k *partition.LearnerSample) *Depends {
	s := &k.Contextual
	if !s.Known {
		return nil
	}
	d := &Depends{Payoffs: s.Payoffs, Deviations: s.Modelled(), Groups: s.Groups, Since: s.Since}
	if len(k.Coefficients) == 0 {
		return d
	}
	for _, c := range k.Coefficients[1:] { // the first is the intercept
		c.Name = clipName(c.Name)
		d.Features = append(d.Features, c)
	}
	slices.SortStableFunc(d.Features, func(a, b delay.Coefficient) int { return cmp.Compare(math.Abs(b.Value), math.Abs(a.Value)) })
	d.Features = d.Features[:min(len(d.Features), shownEffects)]
	return d
}
