package inflight

import (
	"errors"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy/words"
)

// ErrText is returned for text that AppendRow or AppendBucket cannot have written.
var ErrText = errors.New("inflight: not buckets and counts")

func AppendBucket(dst []byte, b Bucket) []byte {
	return words.Append(dst, ':', int64(b.Level), b.Index)
}

// ParseBucket reads a bucket that AppendBucket wrote; it fails with ErrText.
func ParseBucket(text []byte) (Bucket, error) { return words.Parse(text, ':', ReadBucket, ErrText) }

// ReadBucket reads level and index. Their times lie within ±Never, where no sum overflows.
func ReadBucket(r *words.Reader) Bucket {
	level := r.Int(leastLevel, longestLevel)
	return Bucket{int8(level), r.Int(Never>>level, -Never>>level-1)}
}

// Append writes each interval behind a blank, as "level:index:n", and ":expected" unless that is 0.
func (s Intervals) Append(dst []byte) []byte {
	for i := range s {
		dst = AppendBucket(append(dst, ' '), s[i].Bucket)
		dst = strconv.AppendInt(append(dst, ':'), s[i].N, 10)
		if s[i].Expected != 0 {
			dst = strconv.AppendInt(append(dst, ':'), s[i].Expected, 10)
		}
	}
	return dst
}

// ReadIntervals reads intervals that Append wrote.
func ReadIntervals(r *words.Reader) (s Intervals) {
	for total := int64(0); r.Left(); {
		w := words.Of(r.Word(), ':')
		x := Interval{Bucket: ReadBucket(&w), N: w.Int(1, mostCounted-total)}
		if w.Left() {
			x.Expected = w.Int(-mostExpected, mostExpected)
			w.Check(x.Expected != 0)
		}
		last := len(s) - 1
		r.Check(w.Done() && (last < 0 || s[last].End() <= x.Start()))
		s, total = append(s, x), total+x.N
	}
	return s
}

// mostExpected bounds an interval's expectations, so that sums of a few do not overflow.
const mostExpected = 1 << 61

// mostCounted bounds the sum of one text's counts.
const mostCounted = 1 << 53

// AppendRow writes a row as "bin:count" with blanks between; nothing if it is empty.
func (a *Ages) AppendRow(dst []byte, row Bucket) []byte {
	at, found := a.search(row)
	if !found {
		return dst
	}
	first := len(dst)
	for k, n := range a.rows[at].bins {
		if n == 0 {
			continue
		}
		if len(dst) > first {
			dst = append(dst, ' ')
		}
		dst = words.Append(dst, ':', int64(k), n)
	}
	return dst
}

// SetRow replaces a row by one that AppendRow wrote, also with a longer horizon, whose further bins are ignored. Nil removes the row.
// It fails with ErrText.
func (a *Ages) SetRow(g *Scheme, row Bucket, text []byte) error {
	if text == nil {
		if at, found := a.search(row); found {
			a.rows = append(a.rows[:at], a.rows[at+1:]...)
		}
		return nil
	}
	bins, last := make([]int64, g.Bins()), int64(-1)
	all := words.Of(text, ' ')
	for all.Left() {
		w := words.Of(all.Word(), ':')
		k, n := w.Int(last+1, 4*longestLevel), w.Int(1, mostAges)
		all.Check(w.Done())
		if last = k; k < int64(len(bins)) {
			bins[k] = n
		}
	}
	if err := all.End(ErrText); err != nil {
		return err
	}
	r := a.row(g, row)
	r.bins = bins
	r.sum()
	return nil
}
