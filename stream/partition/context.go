package partition

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Context is what a learner looks at of impressions besides their items. It does not change.
type Context struct {
	space       *features.Space
	missingZero bool
	user, item  []string // names of the numbers that stand in lists
}

// NewContext makes one of what is declared. A number that is missing counts as the middle of its range where missingZero says so; else it
// is a fault.
func NewContext(s *features.Space, missingZero bool) *Context {
	c := &Context{space: s, missingZero: missingZero}
	for _, f := range s.User() {
		c.user = append(c.user, f.Name)
	}
	for _, f := range s.Item() {
		if f.Name != features.Utility && f.Name != features.Predicted {
			c.item = append(c.item, f.Name)
		}
	}
	return c
}

// Space is what is declared.
func (c *Context) Space() *features.Space { return c.space }

// Reading is an impression's context in steps of the declared ranges. Its memory is used again by the next.
type Reading struct {
	User    []int8 // where segments are declared the number of the user's; then the user's steps, as many as the space has of users
	Items   []int8 // the candidates', in the order of the record, as many of each as the space has of items
	clamped []int64
	missing int64
	unknown int64 // 1 where the user's segment is not declared
	none    []float64
	// categories are names, as strings that stay.
	categories map[string]string
	// candidates is how many there are.
	candidates int
}

// Read reads the context of an impression for the learner of that name, or says what is wrong with it. Who takes records in before
// they are in the log asks it too.
func (c *Context) Read(r *Reading, imp *event.Impression, learner string) *event.Fault {
	x := &imp.Context
	if x.Fault != nil {
		return x.Fault
	}
	r.begin(c.space)
	if f := c.check(r, x.Features, c.user, learner); f != nil {
		return f
	}
	if c.tellsSegments() {
		segment, declared := c.space.Segment(x.Segment)
		if r.User = append(r.User, int8(segment)); !declared && len(x.Segment) > 0 {
			r.unknown = 1
		}
	}
	var clamped uint64
	r.User, clamped = c.space.QuantiseUser(r.User, r.orNone(x.Features))
	r.clamp(0, clamped)
	r.candidates = len(imp.Candidates)
	for k := range imp.Candidates {
		one := event.CandidateContext{Predicted: math.NaN()}
		if k < len(x.Candidates) {
			one = x.Candidates[k]
		}
		if f := c.checkCandidate(r, &one, learner); f != nil {
			return inCandidate(f, k)
		}
		r.Items, clamped = c.space.QuantiseItem(r.Items, r.orNone(one.Features), imp.Candidates[k].Utility, one.Predicted)
		r.clamp(len(c.user), clamped)
	}
	return nil
}

// begin empties a reading.
func (r *Reading) begin(s *features.Space) {
	n := len(s.User()) + len(s.Item())
	r.User, r.Items, r.missing, r.unknown = r.User[:0], r.Items[:0], 0, 0
	r.clamped = slices.Grow(r.clamped[:0], n)[:n]
	clear(r.clamped)
	for len(r.none) < n {
		r.none = append(r.none, math.NaN())
	}
}

// orNone is a list of numbers, of which all are missing where none are given.
func (r *Reading) orNone(numbers []float64) []float64 {
	if len(numbers) == 0 {
		return r.none
	}
	return numbers
}

// clamp counts features that were clamped, as bits from the first on.
func (r *Reading) clamp(first int, clamped uint64) {
	for ; clamped != 0; clamped &= clamped - 1 {
		r.clamped[first+bits.TrailingZeros64(clamped)]++
	}
}

func (c *Context) checkCandidate(r *Reading, one *event.CandidateContext, learner string) *event.Fault {
	if f := c.check(r, one.Features, c.item, learner); f != nil {
		return f
	}
	if !c.space.HasPredicted() || !math.IsNaN(one.Predicted) {
		return nil
	}
	if r.missing++; c.missingZero {
		return nil
	}
	return inField("/predicted", faultf(event.MissingPredicted, "predicted is absent, and learner %q goes by it", learner))
}

// check holds a list of numbers to the names that are declared.
func (c *Context) check(r *Reading, numbers []float64, names []string, learner string) *event.Fault {
	switch {
	case len(names) == 0: // they are for other learners
		return nil
	case len(numbers) == 0:
		if r.missing += int64(len(names)); c.missingZero {
			return nil
		}
		return inField("/features", faultf(event.MissingFeatures, "features is absent or empty, learner %q declares %s", learner, countNamed(names)))
	case len(numbers) != len(names):
		return inField("/features", faultf(event.WrongFeatures, "features has %d numbers, learner %q declares %s", len(numbers), learner,
			countNamed(names)))
	}
	for i, x := range numbers {
		if !math.IsNaN(x) {
			continue
		}
		if r.missing++; !c.missingZero {
			return inField("/features/"+strconv.Itoa(i), faultf(event.MissingFeatures, "features[%d], %s, is null", i, names[i]))
		}
	}
	return nil
}

// countNamed says how many there are, and which come first.
func countNamed(names []string) string {
	const most = 4
	text := strconv.Itoa(len(names))
	if len(names) > 0 {
		text += " (" + strings.Join(names[:min(len(names), most)], ", ")
		if len(names) > most {
			text += ", …"
		}
		text += ")"
	}
	return text
}

// inCandidate says which candidate a fault is in.
func inCandidate(f *event.Fault, k int) *event.Fault {
	at := strconv.Itoa(k)
	f.Detail = "candidates[" + at + "]: " + f.Detail
	return inField("/candidates/"+at+f.Pointer, f)
}

// ContextStatus is what a learner's contexts were like since its state was loaded.
type ContextStatus struct {
	Looks           bool           // at contexts; else all else is 0
	Clamped         []FeatureCount // numbers outside the range of their feature, by feature as declared, users' first
	Missing         int64          // numbers that counted as the middle of their range
	UnknownSegments int64          // impressions of users whose segment is not declared
}

// FeatureCount is a count of a feature.
type FeatureCount struct {
	Name string
	N    int64
}

// contexts is what a learner's contexts were like so far.
type contexts struct {
	clamped []int64
	missing int64
	unknown int64
}

// took counts what an impression that is ranked was like.
func (c *contexts) took(r *Reading) {
	if len(c.clamped) == 0 {
		c.clamped = make([]int64, len(r.clamped))
	}
	for k, n := range r.clamped {
		c.clamped[k] += n
	}
	c.missing += r.missing
	c.unknown += r.unknown
}

func (l *learner) contextStatus() (s ContextStatus) {
	if l.cfg.Context == nil {
		return s
	}
	s.Looks, s.Missing, s.UnknownSegments = true, l.contexts.missing, l.contexts.unknown
	space := l.cfg.Context.space
	for k, f := range slices.Concat(space.User(), space.Item()) {
		one := FeatureCount{Name: f.Name}
		if len(l.contexts.clamped) > 0 {
			one.N = l.contexts.clamped[k]
		}
		s.Clamped = append(s.Clamped, one)
	}
	return s
}

// about is the context of the impression that has been read, whose deadlines are counted from that time, with candidates in the order of
// scratch.order; nil where the learner looks at items alone.
func (m *Machine) about(l *learner, began event.Millis) *policy.Context {
	c := l.cfg.Context
	if c == nil {
		return nil
	}
	s := &m.scratch
	s.about.X = s.about.X[:0]
	segment, user := c.split(s.reading.User)
	for _, at := range s.order {
		s.about.X = c.space.Vector(s.about.X, user, s.reading.item(int(at), len(s.order)))
	}
	s.about.Segment, s.about.At = c.space.At(segment, began), began
	return &s.about
}

// Fill fills in what was read of an impression whose deadlines are counted from that time, with the candidates in the order of the record.
func (c *Context) Fill(dst *policy.Context, r *Reading, began event.Millis) {
	segment, user := c.split(r.User)
	dst.Segment, dst.At, dst.X = c.space.At(segment, began), began, dst.X[:0]
	for k := range r.candidates {
		dst.X = c.space.Vector(dst.X, user, r.item(k, r.candidates))
	}
}

// item is what was read of the candidate at a position of n.
func (r *Reading) item(at, n int) []int8 {
	width := len(r.Items) / n
	return r.Items[at*width : (at+1)*width]
}

// beginContext begins an entry's context with the user's part.
func (e *entry) beginContext(r *Reading) {
	e.hasContext, e.ofUser = true, len(r.User)
	e.context = append(e.context[:0], r.User...)
}

// addContext adds that of the item that is shown next: the record's candidate at a position of n.
func (e *entry) addContext(r *Reading, at, n int) { e.context = append(e.context, r.item(at, n)...) }

// keepContext keeps what was read for the impression that begins, whose ranking is that order.
func (m *Machine) keepContext(l *learner, e *entry, order []int32) {
	s := &m.scratch
	l.contexts.took(&s.reading)
	if !l.delay.Needs().Context {
		return
	}
	e.beginContext(&s.reading)
	for _, k := range order {
		e.addContext(&s.reading, int(s.order[k]), len(s.order))
	}
}

// meet tells a learner when an impression began that carries items.
func (l *learner) meet(items []policy.Item, began event.Millis) {
	if to, ok := l.delay.(delay.Meeting); ok && l.cfg.Context != nil {
		to.Meet(items, began)
	}
}

// adoptContext takes the context of an adopted impression, whose items are in the entry, from the record. A rule of the day is not asked: what
// is missing counts as the middle of its range. Where the record has none that fits, the entry has none.
func (m *Machine) adoptContext(l *learner) {
	s, e := &m.scratch, &m.cur.entry
	if l.cfg.Context == nil || !l.delay.Needs().Context {
		return
	}
	lenient := *l.cfg.Context
	lenient.missingZero = true
	if f := lenient.Read(&s.reading, &m.impression, l.name); f != nil {
		return
	}
	lenient.Categorise(l.delay, &s.reading, &m.impression, s.numbers)
	at := make(map[policy.Item]int, len(s.numbers))
	for k, i := range s.numbers {
		at[i] = k
	}
	e.beginContext(&s.reading)
	for _, i := range e.items {
		e.addContext(&s.reading, at[i], len(s.numbers))
	}
}

// holds tells whether steps of which the first are a user's are those of a user and an item.
func (c *Context) holds(steps []int8, ofUser int, has bool) bool {
	if !has || ofUser != c.ofUser() || len(steps) != ofUser+len(c.space.Item()) {
		return false
	}
	segment, _ := c.split(steps[:ofUser])
	return segment >= 0 && int(segment) < c.space.UserSegments()
}

// vector is that of the item which was selected from the current entry, and the user's segment; empty where the learner does not need it,
// or it is not known.
func (m *Machine) vector(l *learner) (x []int8, segment int32) {
	e, c := &m.cur.entry, l.cfg.Context
	if c == nil || e.selected < 0 || !c.holds(e.context, e.ofUser, e.hasContext) {
		return nil, 0
	}
	m.scratch.x, segment = c.vector(m.scratch.x[:0], e.context, e.ofUser, e.began)
	return m.scratch.x, segment
}

// vector appends that of steps which c holds, of an impression whose deadlines are counted from that time.
func (c *Context) vector(dst, steps []int8, ofUser int, began event.Millis) (x []int8, segment int32) {
	segment, user := c.split(steps[:ofUser])
	return c.space.Vector(dst, user, steps[ofUser:]), c.space.At(segment, began)
}
