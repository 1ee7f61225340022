package delay

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Learned windows are stored alike by all learners. Hash "windows" maps an interval of windows, "<low>:<high>", or "<low>:" without
// an upper end, to its number of selections, and "<low>:0" to that of selections of a blocked item. Field "windows" of hash
// "learner" is the last estimate: period, number of selections, noise and probabilities, with blanks between.
const hashWindows = "windows"

const fieldWindows = "windows"

func (w *windows) harvest(r Recorder, to *writer) {
	if w.counts == nil {
		return
	}
	for _, i := range w.beyond {
		to.field = appendInterval(to.field[:0], i[0], i[1], openEnd)
		r.Field(hashWindows, to.field, nil)
	}
	w.beyond = w.beyond[:0]
	w.counts.Changed(func(low, high int, count int64) {
		to.field = appendInterval(to.field[:0], low, high, w.counts.Max())
		to.writeCount(r, hashWindows, count)
	})
	if w.unwritten {
		w.unwritten = false
		to.value = w.appendEstimate(to.value[:0])
		r.Field(hashLearner, []byte(fieldWindows), to.value)
	}
}

// appendEstimate appends the last estimate: period, number of selections, noise and probabilities.
func (w *windows) appendEstimate(dst []byte) []byte {
	dst = appendWords(dst, w.period, w.from)
	return appendNumbers(dst, append([]float64{w.noise}, w.q...))
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

func (w *windows) takeMade(text []byte) (rest []byte, err error) {
	rest, made, found := bytes.Cut(text, prefixWindows)
	if found {
		w.made++
		err = w.loadEstimate(made)
	}
	return rest, err
}

// appendInterval appends an interval's name. One up to the longest window has no upper end, so that it stays true if Max grows.
func appendInterval(dst []byte, low, high, longest int) []byte {
	dst = strconv.AppendInt(dst, int64(low), 10)
	dst = append(dst, ':')
	if high < longest {
		dst = strconv.AppendInt(dst, int64(high), 10)
	}
	return dst
}

var errInterval = errors.New("the field is not two numbers, or one, with a colon behind the first")

func (w *windows) about() hashInfo { return hashInfo{Pooled{Hash: hashWindows}, w.counts != nil} }

func (w *windows) beginResync(source int32) {
	if w.counts != nil {
		w.resyncs.begin(source)
	}
}

func (w *windows) endResync(source int32, _ func(policy.Item) bool) {
	if w.counts == nil {
		return
	}
	read := w.resyncs.end(source)
	w.counts.EachOf(source, func(low, high int) {
		if !read[[2]int{low, high}] {
			w.counts.SetSource(source, low, high, 0)
		}
	})
}

// setSource implements storedHash. Intervals beyond our longest window, and malformed counts, are ignored.
func (w *windows) setSource(source int32, field, value []byte, _ Translate) {
	low, high, err := parseInterval(field)
	if err != nil || w.counts == nil {
		return
	}
	if high == openEnd {
		high = w.counts.Max()
	} else if high >= w.counts.Max() {
		return
	}
	var count int64
	if value != nil {
		if count, err = parseInt(value); err != nil {
			return
		}
	}
	if w.counts.Check(low, high, count) == nil {
		w.resyncs.note(source, [2]int{low, high})
		w.counts.SetSource(source, low, high, count)
	}
}

// openEnd stands for no upper end.
const openEnd = math.MaxInt

func parseInterval(field []byte) (low, high int, err error) {
	lowText, highText, found := bytes.Cut(field, []byte{':'})
	l, err := parseInt32(lowText)
	if !found || err != nil || l < 1 || l > policy.MaxWindows {
		return 0, 0, errInterval
	}
	if len(highText) == 0 {
		return int(l), openEnd, nil
	}
	h, err := parseInt32(highText)
	if err != nil || h < l && h != policy.Blocked || h > policy.MaxWindows {
		return 0, 0, errInterval
	}
	return int(l), int(h), nil
}

// load implements storedHash. Counts of windows beyond the longest are added to that.
func (w *windows) load(field, value []byte, _ int) error {
	low, high, err := parseInterval(field)
	if err != nil {
		return err
	}
	count, err := parseInt(value)
	if err != nil || count == 0 || count > 1<<53 {
		return fmt.Errorf("the value is %w, or 0", errNumber)
	}
	if w.counts == nil {
		return nil
	}
	longest := w.counts.Max()
	l, h := min(low, longest), min(high, longest)
	w.counts.Load(l, h, count)
	if low > longest || high != openEnd && high >= longest {
		w.beyond = append(w.beyond, [2]int{low, high})
		w.counts.Touch(l, h)
	}
	return nil
}

// loadEstimate reads the last estimate. One for another number of windows is outdated.
func (w *windows) loadEstimate(value []byte) error {
	parts := bytes.Split(value, []byte{' '})
	if len(parts) < 4 {
		return errors.New("the value is not <period> <selections> <noise> and probabilities")
	}
	period, err := parseInt(parts[0])
	if err != nil {
		return fmt.Errorf("the period is %w", err)
	}
	from, err := parseInt(parts[1])
	if err != nil {
		return fmt.Errorf("the number of selections is %w", err)
	}
	noise, err := strconv.ParseFloat(string(parts[2]), 64)
	if err != nil || !(noise >= 0 && noise < 1) {
		return errors.New("the noise is not a share")
	}
	q := make([]float64, 0, len(parts)-3)
	var sum float64
	for _, part := range parts[3:] {
		x, err := strconv.ParseFloat(string(part), 64)
		if err != nil || !(x > 0 && x <= 1) {
			return errors.New("the estimate is not of probabilities")
		}
		q = append(q, x)
		sum += x
	}
	if !(math.Abs(sum-1) <= 1e-9) {
		return fmt.Errorf("the estimate adds up to %v", sum)
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
