package checker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// driftFold is the expected state of a learner with drift: payoffs of an item's selections, by the block of time in which these began.
type driftFold struct {
	grid  inflight.Scheme
	pass  int64 // the stored one
	items map[uint32]map[inflight.Bucket]paidRow
}

// paidRow holds the number of payoffs, and the sums of them and of their squares in units of 2⁻³⁰.
type paidRow struct{ n, sum, squares int64 }

func (r paidRow) Add(o paidRow) paidRow {
	return paidRow{r.n + o.n, r.sum + o.sum, r.squares + o.squares}
}

// drifts reports whether a learner has had drift all its life, with one horizon.
func (lf *learnerFold) drifts() bool {
	horizon := lf.variants[0].PayoffHorizon
	return lf.always && lf.delay == delayDirect && lf.reset == nil && !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return v.Drift == 0 || v.PayoffHorizon != horizon
	})
}

// followDrift begins to fold payoffs by block, if that is determined: the blocks of imported payoffs are not known.
func (lf *learnerFold) followDrift() {
	if lf.drifts() && lf.imported == nil {
		lf.drift = &driftFold{grid: inflight.NewScheme(max(1, lf.variants[0].PayoffHorizon.Milliseconds())), pass: lf.stored.faded,
			items: map[uint32]map[inflight.Bucket]paidRow{}}
	}
}

// take adds a normalised payoff, or a default, of a selection that began then.
func (d *driftFold) take(item uint32, began event.Millis, payoff float64) {
	addTo(&d.items, item, d.grid.BucketOf(began, d.pass), paidRow{1, inParts(payoff), inParts(payoff * payoff)})
}

// checkDrift compares the stored payoffs block by block.
func (lf *learnerFold) checkDrift(f *fold) {
	if lf.drift == nil || f.partial || lf.unknown || lf.loose {
		f.out.open(driftHistory)
		return
	}
	latest := lf.drift.grid.Tick(f.state.watermark)
	same := len(f.past[lf.name]) == 0 // else it may be of another group, or none yet
	pass := lf.stored.faded
	if !f.out.ok(driftHistory, lf.drift.grid.Tick(pass) == pass && (pass == latest || !same)) {
		f.out.breach(driftHistory, lf.name+": pass", fmt.Sprint(latest), fmt.Sprint(pass))
	}
	got := map[uint32]map[inflight.Bucket]paidRow{}
	for number, rows := range lf.stored.history {
		got[lf.stored.fold(uint32(number))] = rows
	}
	compareItems(f, lf, driftHistory, lf.drift.items, got)
}

// loadHistory reads the pass and its beginning; or an item's rows, each "<level>:<index>:<payoffs>:<sum>:<squares>", in order of time.
func (s *storedLearner) loadHistory(field, value string) error {
	if field == "pass" {
		pass, since, _ := strings.Cut(value, " ")
		p, errPass := strconv.ParseInt(pass, 10, 64)
		first, errSince := strconv.ParseInt(since, 10, 64)
		if errPass != nil || errSince != nil || first > p {
			return fmt.Errorf("passes %q and %q: %w", pass, since, errSilence)
		}
		s.faded = p
		return nil
	}
	item, err := strconv.ParseUint(field, 10, 31)
	if err != nil {
		return fmt.Errorf("field is no number: %w", err)
	}
	return eachRow(value, 3, func(b inflight.Bucket, x []int64) error {
		if x[0] <= 0 || x[2] < 0 {
			return fmt.Errorf("%v is of no payoffs: %w", x, errSilence)
		}
		addTo(&s.history, int64(item), b, paidRow{x[0], x[1], x[2]})
		return nil
	})
}
