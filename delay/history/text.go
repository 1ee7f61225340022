package history

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

// ErrText is returned for text that Append cannot have written.
var ErrText = errors.New("history: not buckets with their sums")

// Append writes the rows, each as "level:index" and its sums, with blanks between.
func (h Rows[S]) Append(dst []byte) []byte {
	for i := range h {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = h[i].Append(dst)
	}
	return dst
}

func (r *Row[S]) Append(dst []byte) []byte { return r.Sum.Append(inflight.AppendBucket(dst, r.Bucket)) }

// AppendNumbers writes each number behind a colon.
func AppendNumbers(dst []byte, numbers ...int64) []byte {
	for _, x := range numbers {
		dst = strconv.AppendInt(append(dst, ':'), x, 10)
	}
	return dst
}

// mostNumbers bounds the numbers of a row.
const mostNumbers = 66

// Parse reads rows that Append wrote, at least one. sumsOf converts numbers; false if out of range. It fails with ErrText.
func Parse[S Sums[S]](text []byte, sumsOf func(numbers []int64) (s S, ok bool)) (h Rows[S], err error) {
	for word := range bytes.SplitSeq(text, []byte{' '}) {
		x, err := parseRow(word, sumsOf)
		if err != nil {
			return nil, err
		}
		if last := len(h) - 1; last >= 0 && h[last].End() > x.Start() {
			return nil, ErrText
		}
		h = append(h, x)
	}
	if !bytes.Equal(h.Append(nil), text) {
		return nil, ErrText
	}
	return h, nil
}

func parseRow[S Sums[S]](word []byte, sumsOf func(numbers []int64) (S, bool)) (x Row[S], err error) {
	level, rest, _ := bytes.Cut(word, []byte{':'})
	index, rest, _ := bytes.Cut(rest, []byte{':'})
	b, err := inflight.ParseBucket(word[:min(len(word), len(level)+1+len(index))])
	if err != nil {
		return x, ErrText
	}
	numbers := make([]int64, 0, mostNumbers)
	for text := range bytes.SplitSeq(rest, []byte{':'}) {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || len(numbers) == mostNumbers {
			return x, ErrText
		}
		numbers = append(numbers, n)
	}
	s, ok := sumsOf(numbers)
	if !ok {
		return x, ErrText
	}
	return Row[S]{b, s}, nil
}

// ParsePayoffs reads rows of payoffs; it fails with ErrText.
func ParsePayoffs(text []byte) (Rows[Payoffs], error) { return Parse(text, PayoffsFrom) }

// PayoffsFrom converts a row's numbers to sums; false if they are out of range.
func PayoffsFrom(numbers []int64) (p Payoffs, ok bool) {
	if len(numbers) != 3 {
		return p, false
	}
	p = Payoffs{numbers[0], numbers[1], numbers[2]}
	return p, p.N >= 1 && p.N <= Full && p.R <= Most && p.R >= -Most && p.Q <= Most && p.Q >= 0
}
