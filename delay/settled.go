package delay

import (
	"errors"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

const hashSettled = "settled"

// settledColumn returns the outcomes of past selections by item. It keeps their sum over all items and sources in all.
func settledColumn(all *inflight.Outcomes) column[inflight.Outcomes] {
	totals := policy.NewTotals(func(_ policy.Item, before, after inflight.Outcomes) {
		*all = all.Add(after).Add(inflight.Outcomes{Paid: -before.Paid, Unpaid: -before.Unpaid, Below: -before.Below, Under: -before.Under})
	})
	return newColumn(&totals, format[inflight.Outcomes]{
		hash: hashSettled, pooled: true,
		append: func(dst []byte, n inflight.Outcomes) []byte {
			if n.Below == 0 {
				return appendWords(dst, n.Paid, n.Unpaid)
			}
			return appendWords(dst, n.Paid, n.Unpaid, n.Below, n.Under)
		},
		parse: parseSettled,
		equal: same[inflight.Outcomes],
	})
}

var errSettled = errors.New("the value is not two or four numbers with blanks between")

func parseSettled(value []byte) (inflight.Outcomes, error) {
	n, err := parseWords(value)
	if err != nil || len(n) != 2 && len(n) != 4 || slices.Max(n) > 1<<53 {
		return inflight.Outcomes{}, errSettled
	}
	if len(n) == 2 {
		return inflight.Outcomes{Paid: n[0], Unpaid: n[1]}, nil
	}
	o := inflight.Outcomes{Paid: n[0], Unpaid: n[1], Below: n[2], Under: n[3]}
	if o.Below < 1 || o.Below > o.Paid || o.Under/history.Units > o.Below {
		return inflight.Outcomes{}, errSettled
	}
	return o, nil
}
