package delay

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// hashOpen maps "<item>" to the partial payoffs of its selections in flight: their number, sum, and sum of squares, in
// history.Units with blanks between. It is empty without partial payoffs.
var hashOpen = named("open")

// over returns p's sum minus that of as many defaults d, in history.Units.
func over(p history.Payoffs, d float64) int64 { return p.R - p.N*history.InUnits(d) }

// openColumn sums the partial payoffs of selections in flight by item. Sums are integers, so that removal is exact in any order.
func openColumn(table *policy.Table) column[history.Payoffs] {
	totals := policy.NewTotals(func(i policy.Item, _, _ history.Payoffs) { table.Weigh(i) })
	return newColumn(&totals, format[history.Payoffs]{
		hash: hashOpen, pooled: true, carried: true,
		append: func(dst []byte, p history.Payoffs) []byte { return words.Append(dst, ' ', p.N, p.R, p.Q) },
		read:   readOpen,
		equal:  same[history.Payoffs],
	})
}

// readOpen reads a count from 1 on, a sum within it, and squares within that.
func readOpen(r *words.Reader) (p history.Payoffs) {
	p.N = r.Int(1, math.MaxInt32)
	p.R = r.Int(0, p.N*history.Units)
	p.Q = r.Int(0, p.R)
	return p
}
