package delay

import (
	"encoding/binary"
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

var hashSettled = named("settled")

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
				return words.Append(dst, ' ', n.Paid, n.Unpaid)
			}
			return words.Append(dst, ' ', n.Paid, n.Unpaid, n.Below, n.Low)
		},
		read:  readSettled,
		equal: same[inflight.Outcomes],
	})
}

func readSettled(r *words.Reader) inflight.Outcomes {
	const most = 1 << 53 // of selections
	o := inflight.Outcomes{Paid: r.Int(0, most), Unpaid: r.Int(0, most)}
	if r.Left() {
		o.Below, o.Low = r.Int(1, o.Paid), r.Int(0, math.MaxInt64)
		r.Check((o.Low-1)/history.Units < o.Below)
	}
	return o
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
