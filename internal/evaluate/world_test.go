package evaluate

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/journal"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// world is a simulated platform with one learner, whose records it keeps.
type world struct {
	t       *testing.T
	users   *simulate.Population
	learner config.Learner
	noise   float64 // the share of users who take anything they look at
	records [event.Topics]bytes.Buffer
	numbers map[string]policy.Item
	paid    []bool // by impression: whether what is selected pays, in time
}

// heard is something that happens later: a record, if put is there, and what the learner is told, if tell is.
type heard struct {
	put  func(at int64)
	tell func(at int64)
}

func newWorld(t *testing.T, c simulate.Config, noise float64, settings ...config.Setting) *world {
	t.Helper()
	users, err := simulate.NewPopulation(c)
	require.NoError(t, err)
	l, _, err := config.ReadLearner("feed", true, settings)
	require.NoError(t, err)
	l.PayoffHorizon = users.Config().Horizon
	return &world{t: t, users: users, learner: l, noise: noise, numbers: map[string]policy.Item{}}
}

// play plays so many impressions.
func (w *world) play(impressions int) {
	var made func() delay.Learner
	made, err := learners.New(&w.learner)
	require.NoError(w.t, err)
	l := made()
	rng := rand.New(rand.NewPCG(9, 9))
	var agenda simulate.Agenda[heard]
	pass := func(now int64) {
		for h, at, ok := agenda.Take(now); ok; h, at, ok = agenda.Take(now) {
			if h.put != nil {
				h.put(at)
			}
			if h.tell != nil {
				h.tell(at)
			}
		}
		l.Advance(now)
	}
	for k := range impressions {
		im := w.users.Impression(k)
		pass(im.Time)
		w.impression(l, im, rng, &agenda)
	}
	pass(1 << 60)
}

// impression has the learner rank and the user select.
func (w *world) impression(l delay.Learner, im *simulate.Impression, rng *rand.Rand, agenda *simulate.Agenda[heard]) {
	n := len(im.Candidates)
	imp := event.Impression{ID: []byte(im.ID), Time: im.Time, HasTime: true, HasUtilities: true}
	names, utilities, by := make([][]byte, n), make([]float64, n), make([]int32, n)
	for i, c := range im.Candidates {
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: []byte(c.Item), Utility: c.Utility})
		names[i], utilities[i] = []byte(c.Item), c.Utility
	}
	w.put(event.Impressions, event.AppendImpression(nil, &imp))
	var ws policy.Workspace
	policy.SortByUtility(by, utilities, names, &ws)
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
	l.Decide(candidates, policy.Key(rng.Uint64()), &d)
	r := event.Ranking{ID: imp.ID, Learner: []byte(w.learner.Name), Time: im.Time, Decision: event.Decision{Group: "g", Policy: string(w.learner.Policy),
		Delay: string(w.learner.Delay), Offset: int64(im.Number), Layout: 2, Propensities: d.Propensities, Instance: d.Instance, Began: im.Time, HasBegan: true,
		HasSelection: true, SelectionDeadline: im.Time + time.Hour.Milliseconds(), PayoffDeadline: im.Time + w.learner.PayoffHorizon.Milliseconds()}}
	order := make([]int, n)
	for k, rank := range d.Order {
		order[k] = int(by[rank])
		r.Items = append(r.Items, names[order[k]])
	}
	w.put(event.Rankings, event.AppendRanking(nil, &r))
	w.respond(l, im, order, &d, candidates, rng, agenda)
}

func (w *world) respond(l delay.Learner, im *simulate.Impression, order []int, d *delay.Decision, candidates []policy.Item, rng *rand.Rand, agenda *simulate.Agenda[heard]) {
	resp := w.users.Respond(im, order)
	if rng.Float64() < w.noise {
		resp.Selected = order[rng.IntN(im.Window)]
		if s := resp.Selection; s != nil {
			s.Item = im.Candidates[resp.Selected].Item
		}
		for i := range resp.Payoffs {
			resp.Payoffs[i].Item, resp.Payoffs[i].Value = im.Candidates[resp.Selected].Item, im.Payoffs[resp.Selected]
		}
	}
	deadline := im.Time + w.learner.PayoffHorizon.Milliseconds()
	w.paid = append(w.paid, len(resp.Payoffs) > 0 && resp.Payoffs[0].Time <= deadline)
	fb := delay.Feedback{Ref: int64(im.Number), Began: im.Time, Instance: d.Instance, Candidates: candidates, Order: slices.Clone(d.Order)}
	if resp.Selection == nil {
		agenda.Add(im.Time+time.Hour.Milliseconds()+1, heard{tell: func(int64) { l.Unselected(fb) }})
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
	agenda.Add(s.Time, heard{tell: func(int64) { l.Selected(fb) }, put: func(at int64) {
		w.put(event.Selections, event.AppendSelection(nil, &event.Selection{ID: []byte(s.ImpressionID), Item: []byte(s.Item), Time: at, HasTime: true}))
	}})
	for i, p := range resp.Payoffs {
		h := heard{put: func(at int64) {
			w.put(event.Payoffs, event.AppendPayoff(nil, &event.Payoff{ID: []byte(p.ImpressionID), Payoff: p.Value, Time: at, HasTime: true,
				Item: []byte(p.Item), EventID: []byte(p.EventID)}))
		}}
		if i == 0 && p.Time <= deadline {
			h.tell = func(at int64) {
				fb.Payoff, fb.Age = p.Value, at-fb.Began
				l.Paid(fb)
			}
		}
		agenda.Add(p.Time, h)
	}
	if !w.paid[im.Number] {
		agenda.Add(deadline+1, heard{tell: func(at int64) {
			fb.Age, fb.Defaulted = deadline-fb.Began, true
			l.Paid(fb)
		}})
	}
}

func (w *world) put(topic event.Topic, value []byte) {
	w.records[topic].Write(value)
	w.records[topic].WriteByte('\n')
}

// files writes the records to files and opens them.
func (w *world) files() []journal.Source {
	dir := w.t.TempDir()
	var all []journal.Source
	for topic := range event.Topic(event.Topics) {
		name := filepath.Join(dir, string('0'+rune(topic)))
		require.NoError(w.t, os.WriteFile(name, w.records[topic].Bytes(), 0o600))
		s, err := journal.OpenLines(topic, name)
		require.NoError(w.t, err)
		w.t.Cleanup(func() { require.NoError(w.t, s.Close()) })
		all = append(all, s)
	}
	return all
}

// journal reads the records.
func (w *world) journal() *journal.Log {
	log, err := journal.Read(context.Background(), w.files(), &journal.Query{Learner: &w.learner, HasSelections: true, Parking: time.Hour})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, log.Close()) })
	return log
}
