package checker

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

// errText means that a stored text is not as a worker writes it.
var errText = errors.New("not as it is written")

// anyInt as the least number accepts all.
const anyInt = math.MinInt64

// words reads a stored text word by word. After its first error it returns zeros, and has no more words.
type words struct {
	left []string
	sep  string
	err  error
}

func split(text, sep string) *words { return &words{left: strings.Split(text, sep), sep: sep} }

func (w *words) fail(why string) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %w", why, errText)
	}
	w.left = nil
}

func (w *words) more() bool { return len(w.left) > 0 }

func (w *words) word() (word string) {
	if !w.more() {
		w.fail("cut off")
		return ""
	}
	word, w.left = w.left[0], w.left[1:]
	return word
}

// next reports whether the next word is this one, and reads it then.
func (w *words) next(word string) bool {
	is := w.more() && w.left[0] == word
	if is {
		w.left = w.left[1:]
	}
	return is
}

// text reads all words left.
func (w *words) text() string {
	text := strings.Join(w.left, w.sep)
	w.left = nil
	return text
}

func (w *words) int(least int64) int64 {
	word := w.word()
	x, err := strconv.ParseInt(word, 10, 64)
	if err != nil || x < least || word[0] == '+' {
		w.fail(fmt.Sprintf("%.100q is no number from %d on", word, least))
		return 0
	}
	return x
}

func (w *words) ints(n int) []int64 {
	all := make([]int64, n)
	for k := range all {
		all[k] = w.int(anyInt)
	}
	return all
}

// number reads the number of an item, instance or rank.
func (w *words) number(least int64) int32 {
	x := w.int(least)
	if x > math.MaxInt32 {
		w.fail(fmt.Sprintf("%d is too large", x))
		return 0
	}
	return int32(x)
}

// item reads the number of an item or instance as a key.
func (w *words) item() int64 { return int64(w.number(0)) }

func (w *words) float(least, most float64) float64 {
	word := w.word()
	x, err := strconv.ParseFloat(word, 64)
	if err != nil || !(x >= least && x <= most) {
		w.fail(fmt.Sprintf("%.100q is no number from %v to %v", word, least, most))
		return 0
	}
	return x
}

// bucket reads a level and an index.
func (w *words) bucket() inflight.Bucket {
	level, index := w.int(0), w.int(anyInt)
	if level > 62 || index<<level>>level != index {
		w.fail("no bucket")
		return inflight.Bucket{}
	}
	return inflight.Bucket{Level: int8(level), Index: index}
}

// shares reads this many numbers from 0 to 1, and then cumulative shares, which do not fall and end with 1, if there are any.
func (w *words) shares(n int) {
	for range n {
		w.float(0, 1)
	}
	last := 1.0
	for least := 0.0; w.more(); least = last {
		last = w.float(least, 1)
	}
	if last != 1 {
		w.fail(fmt.Sprintf("of all payoffs %v have come by the horizon", last))
	}
}

// end returns the error. Words that are left are one.
func (w *words) end() error {
	if w.more() {
		w.fail("too long")
	}
	return w.err
}

// parts reads a word, which is split again.
func (w *words) parts(sep string, read func(*words)) {
	word := w.word()
	p := split(word, sep)
	if read(p); p.end() != nil {
		w.left, w.err = nil, cmp.Or(w.err, fmt.Errorf("%.100q: %w", word, p.err))
	}
}

// each reads the parts of each word left, of at least one.
func (w *words) each(read func(*words)) {
	for w.parts(":", read); w.more(); {
		w.parts(":", read)
	}
}

// rows reads rows in order of time, at least one. Each has a bucket, and the words that take reads.
func (w *words) rows(take func(inflight.Bucket, *words)) {
	end := int64(anyInt)
	w.each(func(row *words) {
		b := row.bucket()
		if b.Start() < end {
			row.fail("not after the bucket before")
		}
		take(b, row)
		end = b.End()
	})
}
