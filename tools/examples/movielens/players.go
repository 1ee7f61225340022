package main

import (
	"fmt"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/examples/movielens/data"
)

type players struct {
	stream *data.Stream
	means  map[string]float64       // of each film, over the whole data set
	films  map[string]data.Film     // films' features in impressions; nil: none
	late   int                      // exact delay of payoffs in impressions; -1: delays of the data
	open   map[int]*data.Impression // not yet answered
	made   int
	tally  tally
	last   func() // called when the last impression was answered
}

var _ platform.Users = (*players)(nil)

func newPlayers(s *data.Stream, means map[string]float64, films map[string]data.Film, late int) *players {
	return &players{stream: s, means: means, films: films, late: late, open: map[int]*data.Impression{}, last: func() {}}
}

func (p *players) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	im, ok := p.stream.Next()
	if !ok || n != p.made {
		panic(fmt.Sprintf("impression %d was asked for after %d were made: %v", n, p.made, p.stream.Err()))
	}
	p.open[n] = im
	p.made++
	out := event.Impression{ID: []byte(im.ID), HasUtilities: true, Candidates: make([]event.Candidate, len(im.Candidates))}
	for i, c := range im.Candidates {
		out.Candidates[i] = event.Candidate{Item: []byte(c.Item), Utility: c.Utility}
		if p.films != nil {
			out.Context.Candidates = append(out.Context.Candidates, event.CandidateContext{Features: p.films[c.Item].Features(), Predicted: math.NaN()})
		}
	}
	return out, im.Time.UnixMilli(), nil
}

// Respond implements platform.Users: everybody selects at once, and pays later.
func (p *players) Respond(n int, items [][]byte) ([]platform.Record, error) {
	im := p.open[n]
	if im == nil {
		return nil, fmt.Errorf("impression %d is not open", n)
	}
	delete(p.open, n)
	order, err := simulate.OrderOf(im.Candidates, items)
	if err != nil {
		return nil, fmt.Errorf("the ranking of impression %s: %w", im.ID, err)
	}
	selected := im.Select(order)
	p.stream.Answered(im, selected)
	delay := im.Delay
	if p.late >= 0 {
		delay = time.Duration(p.late) * p.stream.Config().Interval
	}
	at := im.Time.UnixMilli()
	due := im.Time.Add(delay)
	p.tally.add(im, selected, p.means)
	p.tally.tenths[n*len(p.tally.tenths)/p.stream.Config().Impressions].add(im.Payoffs[selected])
	present := im.Time.Add(time.Duration(p.made-1-n) * p.stream.Config().Interval) // the last impression made is sent
	p.tally.lateness(p.made-1-n, !due.After(present))
	if p.tally.impressions == p.stream.Config().Impressions {
		p.last()
	}

	id, item := []byte(im.ID), []byte(im.Candidates[selected].Item)
	return []platform.Record{
		{At: at, Topic: event.Selections, Selection: event.Selection{ID: id, Item: item}},
		{At: due.UnixMilli(), Topic: event.Payoffs, Payoff: event.Payoff{ID: id, Item: item, Payoff: im.Payoffs[selected]}},
	}, nil
}

// tally adds up payoffs over the answered impressions, by real ratings.
type tally struct {
	impressions int
	payoff      float64 // for the film that was selected
	byUtility   float64 // for the selection of the same user from the order by utility
	best        float64 // for the best film that a ranking can make the same user select
	byMeans     float64 // for the film with the best mean rating, among those that a ranking can make the same user select
	gains       float64 // squares of payoff − payoff by utility

	tenths [10]average // payoffs of each tenth of the impressions

	inFlight float64 // impressions sent between an impression and the reading of its ranking
	overdue  int     // payoffs that were due when the ranking was read, and are sent at once
}

type average struct {
	sum float64
	n   int
}

func (a *average) add(x float64) {
	a.sum += x
	a.n++
}

// mean is 0 for an empty average.
func (a *average) mean() float64 { return a.sum / float64(max(1, a.n)) }

func (t *tally) add(im *data.Impression, selected int, means map[string]float64) {
	of := make([]float64, len(im.Candidates))
	for i, c := range im.Candidates {
		of[i] = means[c.Item]
	}
	_, known := simulate.Best(im.Candidates, of, im.Window)
	// The favourite is shown first by that order, and is selected whatever the window.
	byUtility := im.Payoffs[simulate.Favourite(im.Candidates)]
	t.impressions++
	t.payoff += im.Payoffs[selected]
	t.byUtility += byUtility
	t.best += im.BestPayoff()
	t.byMeans += im.Payoffs[known]
	t.gains += (im.Payoffs[selected] - byUtility) * (im.Payoffs[selected] - byUtility)
}

// lateness adds the number of impressions sent before a ranking was read.
func (t *tally) lateness(impressions int, overdue bool) {
	t.inFlight += float64(impressions)
	if overdue {
		t.overdue++
	}
}

func (t *tally) mean(sum float64) float64 { return sum / float64(max(1, t.impressions)) }

// gain returns the mean payoff beyond that of the order by utility, and its standard error, from the paired differences.
func (t *tally) gain() (mean, stderr float64) {
	mean = t.mean(t.payoff) - t.mean(t.byUtility)
	variance := max(0, t.mean(t.gains)-mean*mean)
	return mean, math.Sqrt(variance / float64(max(1, t.impressions)))
}
