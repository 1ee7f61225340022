package inflight

import (
	"bytes"
	"errors"
	"strconv"
)

// ErrText is returned for text that Append, AppendRow or AppendBucket cannot have written.
var ErrText = errors.New("inflight: not buckets and counts")

func AppendBucket(dst []byte, b Bucket) []byte {
	dst = strconv.AppendInt(dst, int64(b.Level), 10)
	return strconv.AppendInt(append(dst, ':'), b.Index, 10)
}

// ParseBucket reads a bucket that AppendBucket wrote; it fails with ErrText.
func ParseBucket(text []byte) (b Bucket, err error) {
	level, index, found := bytes.Cut(text, []byte{':'})
	l, errLevel := strconv.ParseInt(string(level), 10, 8)
	i, errIndex := strconv.ParseInt(string(index), 10, 64)
	b = Bucket{int8(l), i}
	if !found || errLevel != nil || errIndex != nil || !b.sound() || !bytes.Equal(AppendBucket(nil, b), text) {
		return Bucket{}, ErrText
	}
	return b, nil
}

// sound returns whether b's times lie within ±Never, where no sum overflows.
func (b Bucket) sound() bool {
	return b.Level >= leastLevel && b.Level <= longestLevel && b.Index >= Never>>b.Level && b.Index < -Never>>b.Level
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

// ParseIntervals reads intervals that Append wrote; it fails with ErrText.
func ParseIntervals(text []byte) (s Intervals, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] != ' ' {
		return nil, ErrText
	}
	total := int64(0)
	for word := range bytes.SplitSeq(text[1:], []byte{' '}) {
		x, err := parseSpan(word)
		if total += x.N; err != nil || total > mostCounted {
			return nil, ErrText
		}
		if last := len(s) - 1; last >= 0 && s[last].End() > x.Start() {
			return nil, ErrText
		}
		s = append(s, x)
	}
	return s, nil
}

func parseSpan(word []byte) (x Interval, err error) {
	numbers := bytes.SplitN(word, []byte{':'}, 4)
	if len(numbers) < 3 {
		return x, ErrText
	}
	if x.Bucket, err = ParseBucket(word[:len(numbers[0])+1+len(numbers[1])]); err != nil {
		return Interval{}, ErrText
	}
	if x.N, err = parseCount(numbers[2], mostCounted); err != nil {
		return Interval{}, ErrText
	}
	if len(numbers) == 3 {
		return x, nil
	}
	text := string(numbers[3])
	x.Expected, err = strconv.ParseInt(text, 10, 64)
	if err != nil || x.Expected == 0 || strconv.FormatInt(x.Expected, 10) != text || max(x.Expected, -x.Expected) > mostExpected {
		return Interval{}, ErrText
	}
	return x, nil
}

// mostExpected bounds an interval's expectations, so that sums of a few do not overflow.
const mostExpected = 1 << 61

// mostCounted bounds the sum of one text's counts.
const mostCounted = 1 << 53

// parseCount reads a number in [1, most], in its shortest form.
func parseCount(text []byte, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 || n > most || text[0] == '+' || text[0] == '0' {
		return 0, ErrText
	}
	return n, nil
}

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
		dst = strconv.AppendInt(dst, int64(k), 10)
		dst = strconv.AppendInt(append(dst, ':'), n, 10)
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
	bins, last := make([]int64, g.Bins()), -1
	for word := range bytes.SplitSeq(text, []byte{' '}) {
		bin, count, _ := bytes.Cut(word, []byte{':'})
		k, errBin := parseSmall(bin, 4*longestLevel)
		n, errCount := parseCount(count, mostAges)
		if errBin != nil || errCount != nil || k <= last {
			return ErrText
		}
		if last = k; k < len(bins) {
			bins[k] = n
		}
	}
	r := a.row(g, row)
	r.bins = bins
	r.sum()
	return nil
}

// parseSmall reads a number in [0, greatest], in its shortest form.
func parseSmall(text []byte, greatest int) (int, error) {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 || n > greatest || text[0] == '+' || text[0] == '-' || text[0] == '0' && len(text) > 1 {
		return 0, ErrText
	}
	return n, nil
}
