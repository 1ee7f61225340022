package history

import (
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// Append writes the rows, each as "level:index" and its sums, with blanks between.
func (h Rows[S]) Append(dst []byte) []byte {
	for i := range h {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = AppendRow(dst, &h[i])
	}
	return dst
}

func AppendRow[S Sums[S]](dst []byte, r *Row[S]) []byte {
	return r.Sum.Append(inflight.AppendBucket(dst, r.Bucket))
}

// AppendNumbers writes each number behind a colon.
func AppendNumbers(dst []byte, numbers ...int64) []byte {
	return words.Append(append(dst, ':'), ':', numbers...)
}

// Read reads rows that Append wrote, at least one. sums reads a row's numbers.
func Read[S any](r *words.Reader, sums func(r *words.Reader) S) (h []Row[S]) {
	r.Check(r.Left())
	var w words.Reader
	for r.Left() {
		w = words.Of(r.Word(), ':')
		x := Row[S]{inflight.ReadBucket(&w), sums(&w)}
		last := len(h) - 1
		r.Check(w.Done() && (last < 0 || h[last].End() <= x.Start()))
		h = append(h, x)
	}
	if !r.Done() {
		return nil
	}
	return h
}

// ReadRows reads rows of payoffs.
func ReadRows(r *words.Reader) Rows[Payoffs] { return Read(r, ReadPayoffs) }

// ReadPayoffs reads a row's sums of payoffs.
func ReadPayoffs(r *words.Reader) Payoffs {
	return Payoffs{N: r.Int(1, Full), R: r.Int(-Most, Most), Q: r.Int(0, Most)}
}
