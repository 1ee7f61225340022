package silence

import (
	"bytes"
	"errors"
	"strconv"
)

// ErrText says that text is not what Append, AppendRow or AppendBlock writes.
var ErrText = errors.New("silence: not blocks and counts")

// AppendBlock writes "level:index".
func AppendBlock(dst []byte, b Block) []byte {
	dst = strconv.AppendInt(dst, int64(b.Level), 10)
	return strconv.AppendInt(append(dst, ':'), b.Index, 10)
}

// ParseBlock reads what AppendBlock writes; it fails with ErrText.
func ParseBlock(text []byte) (b Block, err error) {
	level, index, found := bytes.Cut(text, []byte{':'})
	l, errLevel := strconv.ParseInt(string(level), 10, 8)
	i, errIndex := strconv.ParseInt(string(index), 10, 64)
	b = Block{int8(l), i}
	if !found || errLevel != nil || errIndex != nil || b != Settled && (l < leastLevel || l > longestLevel) ||
		!bytes.Equal(AppendBlock(nil, b), text) || i != i<<max(l, 0)>>max(l, 0) {
		return Block{}, ErrText
	}
	return b, nil
}

// Append writes the spans, each as "level:index:n" with a blank before it.
func (s Spans) Append(dst []byte) []byte {
	for i := range s {
		dst = AppendBlock(append(dst, ' '), s[i].Block)
		dst = strconv.AppendInt(append(dst, ':'), s[i].N, 10)
	}
	return dst
}

// ParseSpans reads what Append writes; it fails with ErrText.
func ParseSpans(text []byte) (s Spans, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] != ' ' {
		return nil, ErrText
	}
	for word := range bytes.SplitSeq(text[1:], []byte{' '}) {
		at := max(0, bytes.LastIndexByte(word, ':'))
		b, err := ParseBlock(word[:at])
		if err != nil || b == Settled {
			return nil, ErrText
		}
		n, err := parseCount(word[at+1:], 1<<53)
		if err != nil {
			return nil, ErrText
		}
		if last := len(s) - 1; last >= 0 && s[last].End() > b.Start() {
			return nil, ErrText
		}
		s = append(s, Span{Block: b, N: n})
	}
	return s, nil
}

// parseCount reads a number from 1 to most, in its shortest form.
func parseCount(text []byte, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 || n > most || text[0] == '+' || text[0] == '0' {
		return 0, ErrText
	}
	return n, nil
}

// AppendRow writes a row: the level of the grid's unit, and "bin:count" for each bin that has payoffs, with blanks between;
// nothing where there are none.
func (a *Ages) AppendRow(dst []byte, g *Grid, row Block) []byte {
	at, found := a.search(row)
	if !found {
		return dst
	}
	dst = strconv.AppendInt(dst, int64(g.level), 10)
	for k, n := range a.rows[at].bins {
		if n != 0 {
			dst = strconv.AppendInt(append(dst, ' '), int64(k), 10)
			dst = strconv.AppendInt(append(dst, ':'), n, 10)
		}
	}
	return dst
}

// SetRow replaces a row by what AppendRow has written, be it for another horizon: bins are as long in another unit, but others
// in number. Nil takes the row out. It fails with ErrText.
func (a *Ages) SetRow(g *Grid, row Block, text []byte) error {
	if text == nil {
		if at, found := a.search(row); found {
			a.rows = append(a.rows[:at], a.rows[at+1:]...)
		}
		return nil
	}
	words := bytes.Split(text, []byte{' '})
	level, err := strconv.Atoi(string(words[0]))
	if err != nil || level < leastLevel || level > longestLevel {
		return ErrText
	}
	bins := make([]int64, g.Bins())
	for _, word := range words[1:] {
		bin, count, _ := bytes.Cut(word, []byte{':'})
		k, errBin := strconv.Atoi(string(bin))
		n, errCount := parseCount(count, mostAges)
		if errBin != nil || errCount != nil || k < 0 || k > 4*longestLevel {
			return ErrText
		}
		if k = max(0, k+4*(level-g.level)); k < len(bins) {
			add(&bins[k], n)
		}
	}
	copy(a.row(g, row), bins)
	return nil
}
