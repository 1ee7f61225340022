// Package syntheticlog plays a learner before simulated users and keeps the records, for tests and studies of estimates from a log.
package syntheticlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/deadlines"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

type World struct {
	Users   *simulate.Population
	Learner config.Learner
	// Noise is the share of users who take anything they look at.
	Noise float64
	// Further is the part of 7 % that users of window 1 pay less, and of 17 % that users of window 8 pay more.
	Further float64
	// Records are by topic, in the order of time, one a line.
	Records [event.Topics]bytes.Buffer
	// Paid reports, by impression, whether its selection pays in time.
	Paid    []bool
	numbers map[string]policy.Item
}

// later is an event after an impression: a record (put) and an update of the learner (feed), each optional.
type later struct {
	put  func(at int64)
	feed func(at int64)
}

// New returns a world without impressions. The learner's payoff horizon is the users'.
func New(c simulate.Config, noise float64, settings ...config.Setting) (*World, error) {
	users, err := simulate.NewPopulation(c)
	if err != nil {
		return nil, err
	}
	l, _, err := config.ReadLearner("feed", true, settings)
	if err != nil {
		return nil, err
	}
	l.PayoffHorizon = users.Config().Horizon
	return &World{Users: users, Learner: l, Noise: noise, numbers: map[string]policy.Item{}}, nil
}

// Play plays impressions. The population fixes users, times and selections without noise; seed draws the rest.
func (w *World) Play(impressions int, seed uint64) error {
	made, err := learners.New(&w.Learner)
	if err != nil {
		return err
	}
	l := made()
	rng := rand.New(rand.NewPCG(seed, 9))
	var agenda deadlines.Queue[later]
	pass := func(now int64) {
		for h, at, ok := agenda.Take(now); ok; h, at, ok = agenda.Take(now) {
			if h.put != nil {
				h.put(at)
			}
			if h.feed != nil {
				h.feed(at)
			}
		}
		l.Advance(now)
	}
	for k := range impressions {
		im := w.Users.Impression(k)
		pass(im.Time)
		w.impression(l, im, rng, &agenda)
	}
	pass(1 << 60)
	return nil
}

// impression ranks an impression and lets the user select.
func (w *World) impression(l delay.Learner, im *simulate.Impression, rng *rand.Rand, agenda *deadlines.Queue[later]) {
	n := len(im.Candidates)
	imp := event.Impression{ID: []byte(im.ID), Time: im.Time, HasTime: true, HasUtilities: true}
	for _, c := range im.Candidates {
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: []byte(c.Item), Utility: c.Utility})
	}
	w.put(event.Impressions, event.AppendImpression(nil, &imp))
	by := ByUtility(im)
	candidates := make([]policy.Item, n)
	for rank, at := range by {
		i, ok := w.numbers[im.Candidates[at].Item]
		if !ok {
			i = policy.Item(len(w.numbers))
			w.numbers[im.Candidates[at].Item] = i
			l.Grow(len(w.numbers))
		}
		candidates[rank] = i
	}
	var d delay.Decision
	l.Decide(candidates, nil, policy.Key(rng.Uint64()), &d)
	r := event.Ranking{ID: imp.ID, Learner: []byte(w.Learner.Name), Time: im.Time, Decision: event.Decision{Group: "g", Policy: string(w.Learner.Policy),
		Delay: string(w.Learner.Delay), Offset: int64(im.Number), Layout: 1, Propensities: d.Propensities, Instance: d.Instance, Began: im.Time,
		HasSelection: true, SelectionDeadline: im.Time + time.Hour.Milliseconds(), PayoffDeadline: im.Time + w.Learner.PayoffHorizon.Milliseconds()}}
	order := make([]int, n)
	for k, rank := range d.Order {
		order[k] = int(by[rank])
		r.Items = append(r.Items, imp.Candidates[order[k]].Item)
	}
	w.put(event.Rankings, event.AppendRanking(nil, &r))
	w.respond(l, im, order, &d, candidates, rng, agenda)
}

func (w *World) respond(l delay.Learner, im *simulate.Impression, order []int, d *delay.Decision, candidates []policy.Item, rng *rand.Rand, agenda *deadlines.Queue[later]) {
	resp := w.Users.Respond(im, order)
	if rng.Float64() < w.Noise {
		resp.Selected = order[rng.IntN(im.Window)]
		if s := resp.Selection; s != nil {
			s.Item = im.Candidates[resp.Selected].Item
		}
		for i := range resp.Payoffs {
			resp.Payoffs[i].Item, resp.Payoffs[i].Value = im.Candidates[resp.Selected].Item, im.Payoffs[resp.Selected]
		}
	}
	for i := range resp.Payoffs {
		resp.Payoffs[i].Value *= w.factor(im.Window)
	}
	deadline := im.Time + w.Learner.PayoffHorizon.Milliseconds()
	w.Paid = append(w.Paid, len(resp.Payoffs) > 0 && resp.Payoffs[0].Time <= deadline)
	fb := delay.Feedback{Ref: int64(im.Number), Began: im.Time, Instance: d.Instance, Candidates: candidates, Order: slices.Clone(d.Order)}
	if resp.Selection == nil {
		agenda.Add(im.Time+time.Hour.Milliseconds()+1, later{feed: func(int64) { l.Unselected(fb) }})
		return
	}
	fb.Item = w.numbers[resp.Selection.Item]
	at := slices.Index(order, resp.Selected)
	if len(d.Propensities) > 0 {
		fb.Propensity = d.Propensities[at]
	}
	if len(d.Expected) > 0 {
		fb.Expected, fb.HasExpected = d.Expected[at], true
	}
	s := resp.Selection
	agenda.Add(s.Time, later{feed: func(int64) { l.Selected(fb) }, put: func(at int64) {
		w.put(event.Selections, event.AppendSelection(nil, &event.Selection{ID: []byte(s.ImpressionID), Item: []byte(s.Item), Time: at, HasTime: true}))
	}})
	for i, p := range resp.Payoffs {
		h := later{put: func(at int64) {
			w.put(event.Payoffs, event.AppendPayoff(nil, &event.Payoff{ID: []byte(p.ImpressionID), Payoff: p.Value, Time: at, HasTime: true,
				Item: []byte(p.Item), EventID: []byte(p.EventID)}))
		}}
		if i == 0 && p.Time <= deadline {
			h.feed = func(at int64) {
				fb.Payoff, fb.Age = p.Value, at-fb.Began
				l.Paid(fb)
			}
		}
		agenda.Add(p.Time, h)
	}
	if !w.Paid[im.Number] {
		agenda.Add(deadline+1, later{feed: func(at int64) {
			fb.Age, fb.Defaulted = deadline-fb.Began, true
			l.Paid(fb)
		}})
	}
}

// factor returns the factor of the payoffs of a user with a window, at most 1.
func (w *World) factor(window int) float64 {
	return (1 + w.Further*(0.24*float64(window-1)/7-0.07)) / (1 + 0.17*w.Further)
}

func (w *World) put(topic event.Topic, value []byte) {
	w.Records[topic].Write(value)
	w.Records[topic].WriteByte('\n')
}

// Journal reads the records, with the decisions of shadows. The caller closes it.
func (w *World) Journal(ctx context.Context, shadows ...string) (*joinedlog.Log, error) {
	var all []joinedlog.Source
	for topic := range event.Topic(event.Topics) {
		all = append(all, &lines{topic: topic, rest: w.Records[topic].Bytes()})
	}
	return joinedlog.Read(ctx, all, &joinedlog.Query{Learner: &w.Learner, Shadows: shadows, Context: len(w.Learner.Caps) > 0, HasSelections: true, Parking: time.Hour})
}

type lines struct {
	topic event.Topic
	rest  []byte
	done  int64
	entry joinedlog.Entry
}

func (l *lines) Topic() event.Topic { return l.topic }

func (l *lines) Next(context.Context) (*joinedlog.Entry, error) {
	if len(l.rest) == 0 {
		return nil, io.EOF
	}
	line, rest, _ := bytes.Cut(l.rest, []byte{'\n'})
	l.done += int64(len(l.rest) - len(rest))
	l.rest = rest
	l.entry.Topic, l.entry.Value = l.topic, line
	return &l.entry, nil
}

func (l *lines) Place() string { return fmt.Sprintf("byte %d", l.done) }

func (l *lines) Progress() (done, all int64) { return l.done, l.done + int64(len(l.rest)) }

func (l *lines) Close() error { return nil }

// ByUtility returns the positions of an impression's candidates in rising utility.
func ByUtility(im *simulate.Impression) []int32 {
	names, utilities, by := make([][]byte, len(im.Candidates)), make([]float64, len(im.Candidates)), make([]int32, len(im.Candidates))
	for i, c := range im.Candidates {
		names[i], utilities[i] = []byte(c.Item), c.Utility
	}
	var ws policy.Workspace
	policy.SortByUtility(by, utilities, names, &ws)
	return by
}

// Worth returns a ranking's mean payoff over the impression's users: order holds utility ranks in the order shown. Whether a payoff is in
// time does not depend on the selection.
func (w *World) Worth(k int, order []int32) float64 {
	if !w.Paid[k] {
		return 0
	}
	im := w.Users.Impression(k)
	by := ByUtility(im)
	sum, best, seen := 0.0, int32(0), 0.0
	for k, q := range w.Users.Config().Windows.Fold(make([]float64, len(order))) {
		best = max(best, order[k])
		seen += im.Means[by[order[k]]]
		sum += q * w.factor(k+1) * ((1-w.Noise)*im.Means[by[best]] + w.Noise*seen/float64(k+1))
	}
	return sum
}
