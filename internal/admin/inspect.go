package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

type InspectQuery struct {
	Learner   string // empty: all configured ones
	Partition int32  // -1: all, pooled
	// Candidates, if any, are ranked as an impression would be now. Without a learner's name the default learner ranks.
	Candidates []Candidate
}

type Candidate struct {
	Item    string
	Utility float64
	Plain   bool // without a utility: the others' median counts, as in an impression
}

// ErrUtilities means that candidates lack utilities that their learner needs.
var ErrUtilities = errors.New("the learner needs utilities: write candidates as item:utility; plain items will do only " +
	"where the learner finds their order itself (utilities: sorted or social)")

type Report struct {
	Group      string            `json:"group"`
	Partitions []PartitionReport `json:"partitions"`
	Learners   []LearnerReport   `json:"learners"`
	// Experiments are the configured ones.
	Experiments []ExperimentReport `json:"experiments,omitempty"`
}

type PartitionReport struct {
	Partition  int32            `json:"partition"`
	Generation int64            `json:"generation"`
	Sequence   int64            `json:"sequence"`           // checkpoints since the state began
	Watermark  string           `json:"watermark"`          // RFC 3339; empty: none yet
	Offsets    []int64          `json:"offsets"`            // next to be read, of impressions, selections, payoffs
	Rankings   int64            `json:"rankings"`           // a replay reads rankings from here
	Account    map[string]int64 `json:"account"`            // stored counts of records by outcome
	Learners   []string         `json:"learners,omitempty"` // stored ones by number, also unconfigured
	History    []History        `json:"history,omitempty"`
}

// LearnerReport holds a learner's statistics, pooled over the partitions inspected.
type LearnerReport struct {
	Learner     string              `json:"learner"`
	Policy      string              `json:"policy"`
	Delay       string              `json:"delay"`
	PayoffRange [2]float64          `json:"payoff_range"`     // means and sums are scaled from it to 0..1
	Payoffs     int64               `json:"payoffs"`          // fed
	Warmed      int64               `json:"warmed,omitempty"` // brought by a warm start
	Items       []ItemReport        `json:"items"`            // most payoffs first
	Parts       []PartReport        `json:"partitions"`
	Silence     SilenceReport       `json:"silence"`
	Windows     []float64           `json:"windows,omitempty"`         // probability of window 1, 2, …
	Learns      bool                `json:"windows_learned,omitempty"` // windows are learned, not given
	LearnedFrom int64               `json:"learned_from,omitempty"`    // selections that windows were learned from
	Noise       float64             `json:"noise,omitempty"`           // learned share of users who select any item within their window
	Impressions *ImpressionReport   `json:"impressions,omitempty"`     // of a learner that maximises payoff per impression
	Beliefs     *BeliefReport       `json:"beliefs,omitempty"`         // of a policy with a prior
	Features    []delay.Coefficient `json:"features,omitempty"`        // of a contextual learner
	Deviations  []delay.Deviation   `json:"deviations,omitempty"`      // likewise
	Division    *DivisionReport     `json:"division,omitempty"`        // likewise
	Level       *LevelReport        `json:"level,omitempty"`           // of policy robust
	Order       *OrderReport        `json:"order,omitempty"`           // of utilities, if the learner finds it
	Ranking     *Ranking            `json:"ranking,omitempty"`
}

// SilenceReport describes the weight of selections in flight. Values are null if they are not weighed by age, or
// before the first payoff. They cover the partitions inspected and the published fields that these have read.
type SilenceReport struct {
	Law       string   `json:"law"`        // silence: waits, at_once or ages
	PaidShare *float64 `json:"paid_share"` // of all selections
	DelayP50  *float64 `json:"delay_p50"`  // seconds after which half of the payoffs have come
	DelayP90  *float64 `json:"delay_p90"`
}

func reportSilence(s *delay.SilenceStatus) SilenceReport {
	r := SilenceReport{Law: s.Law.String()}
	if s.Seen {
		r.PaidShare, r.DelayP50, r.DelayP90 = finite(s.Share), finite(float64(s.Median)/1000), finite(float64(s.P90)/1000)
	}
	return r
}

// ImpressionReport is the estimated payoff per impression: the share of impressions with a selection, times the payoff per selection.
type ImpressionReport struct {
	Impressions   int64    `json:"impressions"`    // that the share is learned from
	Share         *float64 `json:"share"`          // null: no impression has ended yet
	PerSelection  *float64 `json:"per_selection"`  // mean payoff, in payoff ranges, selections in flight included; null: not known yet
	PerImpression *float64 `json:"per_impression"` // likewise
}

// reportImpressions returns nil for a learner that maximises payoff per selection.
func reportImpressions(s *partition.LearnerStatus) *ImpressionReport {
	a := &s.Attraction
	if !a.Learned {
		return nil
	}
	r := &ImpressionReport{Impressions: a.Impressions}
	if a.Impressions > 0 {
		r.Share = finite(a.Share)
	}
	if s.Fed > 0 {
		r.PerSelection = finite(a.PerSelection)
	}
	if r.Share != nil && r.PerSelection != nil {
		r.PerImpression = finite(a.PerImpression)
	}
	return r
}

// BeliefReport is a learner's prior, in payoff ranges.
type BeliefReport struct {
	Mean     *float64 `json:"mean"`      // of items' means; null without a prior
	SD       *float64 `json:"sd"`        // of items' means; null without a prior
	PayoffSD float64  `json:"payoff_sd"` // of one item's payoffs
}

func reportBeliefs(c *policy.Components) *BeliefReport {
	switch {
	case c == nil:
		return nil
	case math.IsInf(c.Tau, 1):
		return &BeliefReport{PayoffSD: c.Sigma}
	}
	return &BeliefReport{Mean: &c.Mean, SD: &c.Tau, PayoffSD: c.Sigma}
}

// LevelReport is the common level of all items' payoffs at present.
type LevelReport struct {
	AsOf     string   `json:"as_of"`     // beginning of the newest selection with a payoff, to some seconds; RFC 3339; empty: none yet
	Level    float64  `json:"level"`     // payoffs above the items' own means, in payoff ranges
	HalfLife *float64 `json:"half_life"` // of the payoffs used, in seconds; null: no recent change
}

// reportLevel returns nil if no level is tracked.
func reportLevel(s *delay.LevelStatus) *LevelReport {
	if !s.Tracked {
		return nil
	}
	r := &LevelReport{Level: s.Level, HalfLife: finite(s.HalfLife / 1000)}
	if s.AsOf > inflight.Never {
		r.AsOf = time.UnixMilli(s.AsOf).UTC().Format(time.RFC3339Nano)
	}
	return r
}

type OrderReport struct {
	Items []OrderedItem `json:"items"` // by increasing utility, as far as known
	// UndecidedPairs counts all uncertain pairs, not only neighbours.
	UndecidedPairs int64   `json:"undecided_pairs"`
	Expected       float64 `json:"expected_selections"` // approximate number of selections until all is certain
}

type OrderedItem struct {
	Item string `json:"item"`
	// Undecided means that the item's order after the one before is not certain.
	Undecided bool `json:"undecided,omitempty"`
}

type ItemReport struct {
	Item    string   `json:"item"`
	Payoffs int64    `json:"payoffs"`
	Sum     float64  `json:"sum"`
	Mean    *float64 `json:"mean"` // null: no payoff yet
	delay.ItemInspection
	Share *float64 `json:"share,omitempty"` // of impressions with the item on top; absent: none has ended yet
}

// PartReport is a learner's state in one partition.
type PartReport struct {
	Partition int32                      `json:"partition"`
	Items     int                        `json:"items"`
	Payoffs   int64                      `json:"payoffs"` // fed here
	InFlight  int64                      `json:"in_flight"`
	Silent    float64                    `json:"silent"` // weight of these
	Waiting   int64                      `json:"waiting"`
	Hold      *HoldReport                `json:"hold,omitempty"`
	Instances []delay.InstanceInspection `json:"instances,omitempty"`
}

// HoldReport is the payoff that QPM-D waits for.
type HoldReport struct {
	Item       string `json:"item"`
	Impression int64  `json:"impression_offset"` // of the impression whose selection began it
}

// Inspect reads the state, with or without running workers, and changes nothing.
func (tool *Tool) Inspect(ctx context.Context, q InspectQuery) (*Report, error) {
	if q.Learner != "" {
		if _, err := tool.learner(q.Learner); err != nil {
			return nil, err
		}
	}
	numbers, err := tool.asked(ctx, q.Partition)
	if err != nil {
		return nil, err
	}
	r := &Report{Group: tool.cfg.Kafka.Group}
	var views []*view
	for _, p := range numbers {
		v, err := tool.lookForOutput(ctx, p)
		if errors.Is(err, state.ErrNoState) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tool.say("partition %d of %d is read", p, len(numbers))
		one, err := v.report()
		if err != nil {
			return nil, err
		}
		r.Partitions, views = append(r.Partitions, one), append(views, v)
	}
	if len(views) == 0 {
		return nil, fmt.Errorf("%w (%q)", ErrNothing, tool.cfg.Kafka.Group)
	}
	r.Experiments = experimentReports(views)
	return r, tool.learners(r, views, &q)
}

func (tool *Tool) learners(r *Report, views []*view, q *InspectQuery) error {
	var asked []*config.Learner
	for i := range tool.cfg.Learners {
		if l := &tool.cfg.Learners[i]; q.Learner == "" || q.Learner == l.Name {
			one, err := learnerReport(l, views)
			if err != nil {
				return err
			}
			r.Learners, asked = append(r.Learners, one), append(asked, l)
		}
	}
	all, err := tool.pooled(views)
	if err != nil {
		return err
	}
	for i, l := range asked {
		known, err := all.machine.Inspect(l.Name)
		if err != nil {
			return err
		}
		one := &r.Learners[i]
		one.Windows, one.LearnedFrom, one.Noise = known.Learned.Windows, known.Learned.Learned, known.Learned.Noise
		one.Learns = len(known.Learned.Windows) > 0 && l.Windows.Learned()
		one.Silence = reportSilence(&known.Silence)
		one.Impressions = reportImpressions(&known.LearnerStatus)
		one.Beliefs = reportBeliefs(known.Learned.Beliefs)
		one.Features = known.Learned.Coefficients
		one.Deviations = known.Contextual.Modelled()
		one.Division = reportDivision(&known.Contextual)
		one.Order = orderReport(&known)
		if len(q.Candidates) > 0 && (q.Learner != "" || l.Default) {
			if one.Ranking, err = Explain(l, all.machine, all.number, q.Candidates, nil, policy.Key(l.Seed)); err != nil {
				return err
			}
		}
	}
	return nil
}

// asked returns the partitions to read.
func (tool *Tool) asked(ctx context.Context, one int32) ([]int32, error) {
	n, err := tool.partitions(ctx)
	if err != nil {
		return nil, err
	}
	if int(one) >= n {
		return nil, fmt.Errorf("no partition %d: the group has %d, from 0 to %d", one, n, n-1)
	}
	if one >= 0 {
		return []int32{one}, nil
	}
	numbers := make([]int32, n)
	for i := range numbers {
		numbers[i] = int32(i)
	}
	return numbers, nil
}

// pooled returns the first view's machine with the pooled state of all views, by the workers' code.
func (tool *Tool) pooled(views []*view) (*view, error) {
	if len(views) == 1 {
		return views[0], nil
	}
	c := tool.machine
	c.Names = views[0].machine.Names()
	c.Pooled = partition.NewPooledState(c.Learners, c.Names)
	reader := partition.NewPublishedReader(c.Learners, c.Names)
	for _, v := range views {
		published := slices.Clone(v.fields)
		published = slices.DeleteFunc(published, func(f state.Field) bool { return !slices.Contains(reader.Hashes(), f.Hash) })
		c.Pooled.Update(v.number, reader.Read(v.number, published, func(error) {}))
	}
	c.Pooled.Commit()
	one := *views[0]
	c.Partition, c.MaxRankingBytes = one.number, unlimited
	var err error
	if one.machine, err = partition.NewOffline(c); err != nil {
		return nil, err
	}
	return &one, load(one.machine, one.fields)
}

func (v *view) report() (PartitionReport, error) {
	r := PartitionReport{Partition: v.number, Generation: v.meta.Generation, Sequence: v.meta.Seq, Rankings: v.meta.Rankings,
		Account: v.machine.Counts(), Offsets: offsetsOf(&v.meta)}
	if w := v.machine.Watermark(); w > 0 {
		r.Watermark = time.UnixMilli(w).UTC().Format(time.RFC3339Nano)
	}
	for _, l := range v.machine.Learners() {
		r.Learners = append(r.Learners, l.Name)
	}
	var err error
	r.History, err = readHistory(v.fields)
	return r, err
}

func learnerReport(l *config.Learner, views []*view) (LearnerReport, error) {
	r := LearnerReport{Learner: l.Name, Policy: string(l.Policy), Delay: string(l.Delay),
		PayoffRange: [2]float64{l.PayoffRange.Min, l.PayoffRange.Max}}
	at := map[string]int{}
	var level delay.LevelStatus
	for _, v := range views {
		one, err := v.machine.Inspect(l.Name)
		if err != nil {
			return r, err
		}
		if !level.Tracked || one.Level.AsOf > level.AsOf {
			level = one.Level
		}
		part := partReport(v.number, &one)
		r.Warmed += one.Account.Warmed
		for _, item := range one.Items {
			k, known := at[item.Name]
			if !known {
				k = len(r.Items)
				at[item.Name] = k
				r.Items = append(r.Items, ItemReport{Item: item.Name})
			}
			sum := &r.Items[k]
			sum.Payoffs += item.Sums.N
			sum.Sum += item.Sums.R
			sum.InFlight += item.InFlight
			sum.Silent += item.Silent
			sum.Waiting += item.Waiting
			sum.OnTop += item.OnTop
			sum.Selected += item.Selected
			part.Payoffs += item.Sums.N
		}
		r.Payoffs += part.Payoffs
		r.Parts = append(r.Parts, part)
	}
	r.Level = reportLevel(&level)
	for i := range r.Items {
		it := &r.Items[i]
		if it.Payoffs > 0 {
			it.Mean = finite(it.Sum / float64(it.Payoffs))
		}
		if it.OnTop > 0 {
			it.Share = finite(float64(it.Selected) / float64(it.OnTop))
		}
	}
	slices.SortStableFunc(r.Items, func(a, b ItemReport) int { return int(min(max(b.Payoffs-a.Payoffs, -1), 1)) })
	return r, nil
}

// orderReport returns nil if utilities are given.
func orderReport(v *partition.LearnerView) *OrderReport {
	p := v.Learned.Preferences
	if p == nil {
		return nil
	}
	r := &OrderReport{Items: make([]OrderedItem, len(p.Items)), UndecidedPairs: p.Status.Undecided, Expected: math.Ceil(p.Expected)}
	names := make(map[policy.Item]string, len(v.Items))
	for _, x := range v.Items {
		names[x.Number] = x.Name
	}
	for rank, i := range p.Items {
		r.Items[rank].Item = names[i] // an item that ended before utilities were found has no name
	}
	for _, rank := range p.Undecided {
		r.Items[rank].Undecided = true
	}
	return r
}

func partReport(number int32, v *partition.LearnerView) PartReport {
	p := PartReport{Partition: number, Items: len(v.Items), InFlight: v.Flights, Silent: v.Silence.Weight, Waiting: v.Queued,
		Instances: v.Learned.Instances}
	if v.OnHold {
		p.Hold = &HoldReport{Item: v.HoldItem, Impression: v.Learned.HoldRef}
	}
	return p
}

// Ranking is the ranking of a list as of now.
type Ranking struct {
	Rule       string            `json:"rule"` // how leaders are chosen, in a sentence
	Partition  int32             `json:"partition"`
	OwnOrder   bool              `json:"own_order,omitempty"` // the learner's own order of utilities counts, not the given one
	Instance   *int32            `json:"instance,omitempty"`  // of BOLD, which would decide
	OnHold     string            `json:"on_hold,omitempty"`   // the item that QPM-D waits for: statistics are frozen
	Division   *DivisionReport   `json:"division,omitempty"`  // of a contextual learner
	Candidates []RankedCandidate `json:"candidates"`          // in the order shown
}

type RankedCandidate struct {
	Item       string   `json:"item"`
	Utility    float64  `json:"utility"`
	Filled     bool     `json:"utility_filled,omitempty"` // it came without one: Utility is the others' median
	Leads      bool     `json:"leads"`
	BlockedBy  string   `json:"blocked_by,omitempty"` // the leader that users prefer and would select
	BeatenBy   string   `json:"beaten_by,omitempty"`  // the candidate that rules it out as a leader, with confidence
	Payoffs    int64    `json:"payoffs"`
	Worth      float64  `json:"worth"` // evidence about its mean, in present payoffs, selections in flight included
	Mean       *float64 `json:"mean"`  // by this evidence
	Lower      *float64 `json:"lower"` // the confidence interval of its mean; null: unbounded, or none
	Upper      *float64 `json:"upper"`
	Index      *float64 `json:"index"` // the score that compares leaders
	InFlight   int64    `json:"in_flight"`
	Open       float64  `json:"open"` // weight of these in pending samples
	Propensity *float64 `json:"propensity,omitempty"`

	// Of a ranking that pins or caps could have changed; the other fields are about the policy's order.
	Decided int    `json:"decided,omitempty"` // the place in that order, from 1
	Rule    string `json:"rule,omitempty"`    // that kept the candidate from it

	Adds []delay.Contribution `json:"adds,omitempty"` // with a context: the summands of Mean, or of PerSelection if set

	// For payoff per impression: the candidate's estimated factors. Mean, Lower, Upper and Index are
	// proportional to PerImpression, and equal to PerSelection for an item with the overall share.
	PerSelection  *float64 `json:"per_selection,omitempty"`  // absent: no estimate yet
	Share         *float64 `json:"share,omitempty"`          // of impressions with the item on top that end with a selection
	PerImpression *float64 `json:"per_impression,omitempty"` // absent like PerSelection
}

// Explain ranks candidates as a partition's machine would now, with that key,
// with reasons. imp, if not nil, is their impression, whose context counts.
func Explain(l *config.Learner, m *partition.Offline, number int32, candidates []Candidate, imp *event.Impression, key policy.Key) (*Ranking, error) {
	finds := l.Utilities != config.Given
	asked := event.Impression{}
	for i, c := range candidates {
		asked.Candidates = append(asked.Candidates, event.Candidate{Item: []byte(c.Item), Utility: c.Utility})
		if c.Plain {
			asked.Filled = append(asked.Filled, int32(i))
		}
	}
	if new(event.Filler).Fill(&asked); !finds && !asked.HasUtilities {
		return nil, fmt.Errorf("%w; learner %q", ErrUtilities, l.Name)
	}
	items, utilities := make([][]byte, len(candidates)), make([]float64, len(candidates))
	for i, c := range asked.Candidates {
		items[i], utilities[i] = c.Item, c.Utility
	}
	x, err := m.Explain(l.Name, items, utilities, imp, key)
	if err != nil {
		return nil, err
	}
	r := &Ranking{Rule: x.Rule, Partition: number, OwnOrder: finds}
	if x.Decision.Instance >= 0 {
		r.Instance = &x.Decision.Instance
	}
	if one, err := m.Inspect(l.Name); err == nil {
		r.Division = reportDivision(&one.Contextual)
		if one.OnHold {
			r.OnHold = one.HoldItem
		}
	}
	name := func(position int32) string { return candidates[x.Order[position]].Item }
	from, rules := x.Decision.Order[:0:0], partition.Rules{}
	for k := range x.Decision.Order {
		from = append(from, int32(k))
	}
	ruled := imp != nil && rules.Read(imp, learners.Caps(l))
	if ruled {
		from = rules.Show(x.Decision.Order, x.Order)
	}
	for place, k := range from {
		position := x.Decision.Order[k]
		why := &x.Why[position]
		c := RankedCandidate{Item: name(position), Utility: utilities[x.Order[position]], Filled: !finds && !asked.HasUtility(int(x.Order[position])), Leads: why.Leader == position,
			Payoffs: why.N, Lower: finite(why.Lower), Upper: finite(why.Upper), Index: finite(why.Index), InFlight: why.InFlight,
			Worth: why.Worth, Open: why.Open}
		if why.N > 0 || why.Worth > 0 {
			c.Mean = finite(why.Mean)
		}
		if !c.Leads {
			c.BlockedBy = name(why.Leader)
		}
		if why.BeatenBy >= 0 && !c.Leads { // a policy without intervals may let one lead whose mean is less
			c.BeatenBy = name(why.BeatenBy)
		}
		if ruled {
			if c.Decided = int(k) + 1; c.Decided != place+1 {
				c.Rule = rules.Why(int(x.Order[position]))
			}
		} else if int(k) < len(x.Decision.Propensities) {
			c.Propensity = finite(x.Decision.Propensities[k])
		}
		if x.Parts != nil {
			c.Adds = x.Parts[position]
		}
		if x.Attracts != nil {
			a := &x.Attracts[position]
			c.PerSelection, c.Share, c.PerImpression = finite(a.PerSelection), finite(a.Share), finite(a.PerImpression)
		}
		r.Candidates = append(r.Candidates, c)
	}
	return r, nil
}

// finite returns nil for a number that JSON cannot hold.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
