package delay

import (
	"encoding/binary"
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
		*all = all.Add(after).Minus(before)
	})
	totals.ReplaceBy(func(sum, old, by inflight.Outcomes) (inflight.Outcomes, bool) { return sum.Minus(old).Add(by), true })
	totals.PackBy(packedOutcomes())
	return newColumn(&totals, format[inflight.Outcomes]{
		hash: hashSettled, pooled: true, rests: true,
		append: func(dst []byte, n inflight.Outcomes) []byte {
			if n.Below == 0 {
				return appendWords(dst, n.Paid, n.Unpaid)
			}
			return appendWords(dst, n.Paid, n.Unpaid, n.Below, n.Low)
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
	o := inflight.Outcomes{Paid: n[0], Unpaid: n[1], Below: n[2], Low: n[3]}
	if o.Below < 1 || o.Below > o.Paid || (o.Low-1)/history.Units >= o.Below {
		return inflight.Outcomes{}, errSettled
	}
	return o, nil
}

// packedOutcomes packs numbers of paid and unpaid selections as uvarints; if there are payoffs below the default, the two numbers about
// these follow.
func packedOutcomes() policy.Packing[inflight.Outcomes] {
	return policy.Packing[inflight.Outcomes]{
		Append: func(dst []byte, o inflight.Outcomes) []byte {
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(o.Paid)), uint64(o.Unpaid))
			if o.Below == 0 && o.Low == 0 {
				return dst
			}
			return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(o.Below)), uint64(o.Low))
		},
		Read: func(packed []byte) (o inflight.Outcomes) {
			for _, n := range []*int64{&o.Paid, &o.Unpaid, &o.Below, &o.Low} {
				if len(packed) > 0 {
					of, size := binary.Uvarint(packed)
					*n, packed = int64(of), packed[size:]
				}
			}
			return o
		},
	}
}
