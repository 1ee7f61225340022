package delay

import (
	"errors"
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
)

// hashOpen maps "<item>" to the partial payoffs of its selections in flight: their number, sum, and sum of squares, in
// history.Units with blanks between. It is empty without partial payoffs.
const hashOpen = "open"

// over returns p's sum minus that of as many defaults d, in history.Units.
func over(p history.Payoffs, d float64) int64 { return p.R - p.N*history.InUnits(d) }

// openColumn sums the partial payoffs of selections in flight by item. Sums are integers, so that removal is exact in any order.
func openColumn(table *policy.Table) column[history.Payoffs] {
	totals := policy.NewTotals(func(i policy.Item, _, _ history.Payoffs) { table.Weigh(i) })
	return newColumn(&totals, format[history.Payoffs]{
		hash: hashOpen, pooled: true, carried: true,
		append: func(dst []byte, p history.Payoffs) []byte { return appendWords(dst, p.N, p.R, p.Q) },
		parse:  parseOpen,
		equal:  same[history.Payoffs],
	})
}

var errOpen = errors.New("the value is not a count from 1 on, a sum within it, and squares within that")

func parseOpen(value []byte) (history.Payoffs, error) {
	n, err := parseWords(value)
	if err != nil || len(n) != 3 {
		return history.Payoffs{}, errOpen
	}
	p := history.Payoffs{N: n[0], R: n[1], Q: n[2]}
	if p.N < 1 || p.N > math.MaxInt32 || p.R > p.N*history.Units || p.Q > p.R {
		return history.Payoffs{}, errOpen
	}
	return p, nil
}
