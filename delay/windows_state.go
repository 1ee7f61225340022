package delay

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// Learned windows are stored alike by all learners. Hash "windows" maps an interval of windows and the length of its lists,
// "<low>:<high>:<length>", to its number of selections. Without an upper end high is empty; 0 stands for selections of a blocked item.
// The length of lists as long as the longest window is empty, too. Field "windows" of hash "learner" is the last estimate: period,
// number of selections, noise and probabilities, with blanks between.
var hashWindows = named("windows")

const fieldWindows = "windows"

func (w *windows) harvest(r Recorder, to *writer) {
	if w.counts == nil {
		return
	}
	for _, i := range w.beyond {
		to.field = appendInterval(to.field[:0], i, openEnd)
		r.Field(hashWindows, to.field, nil)
	}
	w.beyond = w.beyond[:0]
	w.counts.Changed(func(i policy.Interval, count int64) {
		to.field = appendInterval(to.field[:0], i, w.counts.Max())
		to.writeCount(r, hashWindows, count)
	})
	if w.unwritten {
		w.unwritten = false
		to.value = w.appendEstimate(to.value[:0])
		r.Field(HashLearner, []byte(fieldWindows), to.value)
	}
}

// appendEstimate appends the last estimate: period, number of selections, noise and probabilities.
func (w *windows) appendEstimate(dst []byte) []byte {
	dst = words.Append(dst, ' ', w.period, w.from)
	return words.AppendFloats(dst, ' ', append([]float64{w.noise}, w.q...)...)
}

// prefixWindows begins the last line of a global learner's estimates.
var prefixWindows = []byte("\nwindows ")

// appendMade appends a global learner's estimate, if it has one, and takeMade cuts it off and uses it.
func (w *windows) appendMade(dst []byte) []byte {
	if w.made == 0 {
		return dst
	}
	return w.appendEstimate(append(dst, prefixWindows...))
}

func (w *windows) takeMade(text []byte) (rest []byte, taken Estimates, err error) {
	rest, made, found := bytes.Cut(text, prefixWindows)
	if found {
		w.made++
		taken, err = OfWindows, w.loadEstimate(made)
	}
	return rest, taken, err
}

// appendInterval appends an interval's name. One up to the longest window has no upper end, so that it stays true if Max grows.
func appendInterval(dst []byte, i policy.Interval, longest int) []byte {
	dst = strconv.AppendInt(dst, int64(i.Low), 10)
	for _, x := range [...]int{i.High, i.Length} {
		if dst = append(dst, ':'); x < longest {
			dst = strconv.AppendInt(dst, int64(x), 10)
		}
	}
	return dst
}

var errInterval = errors.New("the field is not a number and two others, or nothing, with colons between")

func (w *windows) about() hashInfo { return hashInfo{Pooled{Hash: hashWindows}, w.counts != nil} }

func (w *windows) beginResync(source int32) {
	if w.counts != nil {
		w.resyncs.Begin(source)
	}
}

func (w *windows) endResync(source int32, _ func(policy.Item) bool) {
	if w.counts == nil {
		return
	}
	read := w.resyncs.End(source)
	w.counts.EachOf(source, func(i policy.Interval) {
		if !read[i] {
			w.counts.SetSource(source, i, 0)
		}
	})
}

// setSource implements storedHash. Intervals beyond our longest window, and malformed counts, are ignored.
func (w *windows) setSource(source int32, field, value []byte, _ Translate) {
	i, err := parseInterval(field)
	if err != nil || w.counts == nil || w.isBeyond(i) {
		return
	}
	var count int64
	if value != nil {
		r := words.Of(value, ' ')
		if count = r.Int(0, math.MaxInt64); !r.Done() {
			return
		}
	}
	if i = w.counts.Clip(i); w.counts.Check(i, count) == nil {
		w.resyncs.Note(source, i)
		w.counts.SetSource(source, i, count)
	}
}

// isBeyond returns whether a stored interval is not one of ours, but of a longer longest window.
func (w *windows) isBeyond(i policy.Interval) bool {
	ours, longest := w.counts.Clip(i), w.counts.Max()
	beyond := func(x, ours int) bool { return x != openEnd && (x >= longest || x != ours) }
	return i.Low != ours.Low || beyond(i.High, ours.High) || beyond(i.Length, ours.Length)
}

// openEnd stands for no upper end.
const openEnd = math.MaxInt

func parseInterval(field []byte) (i policy.Interval, err error) {
	r := words.Of(field, ':')
	i.Low = int(r.Int(1, policy.MaxWindows))
	for _, to := range [...]*int{&i.High, &i.Length} {
		word := r.Word()
		if *to = openEnd; len(word) > 0 {
			w := words.Of(word, ':')
			*to = int(w.Int(0, policy.MaxWindows))
			r.Check(w.Done())
		}
	}
	r.Check((i.High >= i.Low || i.High == policy.Blocked) && i.Length >= 1)
	return i, r.End(errInterval)
}

// load implements storedHash. Counts of windows beyond the longest are added to that.
func (w *windows) load(field, value []byte, _ int) error {
	i, err := parseInterval(field)
	if err != nil {
		return err
	}
	r := words.Of(value, ' ')
	count := r.Int(1, 1<<53)
	if err := r.End(errValue); err != nil {
		return err
	}
	if w.counts == nil {
		return nil
	}
	clipped := w.counts.Clip(i)
	w.counts.Load(clipped, count)
	if w.isBeyond(i) {
		w.beyond = append(w.beyond, i)
		w.counts.Touch(clipped)
	}
	return nil
}

// loadEstimate reads the last estimate. One for another number of windows is outdated.
func (w *windows) loadEstimate(value []byte) error {
	r := words.Of(value, ' ')
	period, from := r.Int(0, math.MaxInt64), r.Int(0, math.MaxInt64)
	noise, q := r.Float(0, 1), r.Floats(math.SmallestNonzeroFloat64, 1)
	var sum float64
	for _, x := range q {
		sum += x
	}
	r.Check(noise < 1 && math.Abs(sum-1) <= 1e-9)
	if err := r.End(errEstimate); err != nil {
		return err
	}
	if w.counts == nil {
		return nil
	}
	w.period, w.from = period, from
	if w.outdated = len(q) != w.counts.Max(); w.outdated {
		return nil
	}
	w.q, w.noise = q, noise
	return w.take()
}

// settle ends loading. An outdated estimate is made again.
func (w *windows) settle() {
	if w.outdated {
		w.outdated = false
		w.estimate()
	}
}
