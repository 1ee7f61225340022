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

// Context says which features, segments and categories of an impression a learner uses. It does not change.
type Context struct {
	space       *features.Space
	missingZero bool
	user, item  []string // names of the features that records give as lists
}

// NewContext makes a Context of declared features. A missing feature counts as the middle of its range if missingZero, and is a fault
// otherwise.
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

// Space returns the declared features.
func (c *Context) Space() *features.Space { return c.space }

// Reading is an impression's context in steps of the declared ranges. The next Read overwrites it.
type Reading struct {
	User    []int8 // the user's segment, if segments are declared, then a step for each user feature
	Items   []int8 // the steps of all candidates, in the record's order
	clamped []int64
	missing int64
	unknown int64 // 1 if the user's segment is not declared
	none    []float64
	// categories holds the names of categories as strings that live on.
	categories map[string]string
	// candidates is the number of candidates.
	candidates int
}

// Read reads the context of an impression for a learner, or returns the fault in it. Package serve calls it too, before records are
// written.
func (c *Context) Read(r *Reading, imp *event.Impression, learner string) *event.Fault {
	x := &imp.Context
	if x.Fault != nil {
		return x.Fault
	}
	r.begin(c.space)
	if f := c.check(r, x.Features, c.user, learner); f != nil {
		return f
	}
	if c.hasSegments() {
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

func (r *Reading) begin(s *features.Space) {
	n := len(s.User()) + len(s.Item())
	r.User, r.Items, r.missing, r.unknown = r.User[:0], r.Items[:0], 0, 0
	r.clamped = slices.Grow(r.clamped[:0], n)[:n]
	clear(r.clamped)
	for len(r.none) < n {
		r.none = append(r.none, math.NaN())
	}
}

func (r *Reading) orNone(numbers []float64) []float64 {
	if len(numbers) == 0 {
		return r.none
	}
	return numbers
}

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
	return inField("/predicted", faultf(event.MissingPredicted, "predicted is absent, and learner %q needs it", learner))
}

// check compares a list of numbers with the declared names.
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

func inCandidate(f *event.Fault, k int) *event.Fault {
	at := strconv.Itoa(k)
	f.Detail = "candidates[" + at + "]: " + f.Detail
	return inField("/candidates/"+at+f.Pointer, f)
}

// ContextStatus counts irregular contexts of a learner since its state was loaded.
type ContextStatus struct {
	Looks           bool           // false: the learner uses items alone, and the counts are 0
	Clamped         []FeatureCount // numbers outside their feature's range, by feature as declared, users' first
	Missing         int64          // numbers that counted as the middle of their range
	UnknownSegments int64          // impressions of users whose segment is not declared
}

type FeatureCount struct {
	Name string
	N    int64
}

type contexts struct {
	clamped []int64
	missing int64
	unknown int64
}

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

func (c *contexts) status(of *Context) (s ContextStatus) {
	if of == nil {
		return s
	}
	s.Looks, s.Missing, s.UnknownSegments = true, c.missing, c.unknown
	space := of.space
	for k, f := range slices.Concat(space.User(), space.Item()) {
		one := FeatureCount{Name: f.Name}
		if len(c.clamped) > 0 {
			one.N = c.clamped[k]
		}
		s.Clamped = append(s.Clamped, one)
	}
	return s
}

// Fill fills dst from a reading, with candidates in an order of positions in the record; nil: the record's. The impression's deadlines are
// counted from began.
func (c *Context) Fill(dst *policy.Context, r *Reading, order []int32, began event.Millis) {
	segment, user := c.split(r.User)
	dst.Segment, dst.At, dst.X = c.space.At(segment, began), began, dst.X[:0]
	for k := range r.candidates {
		if order != nil {
			k = int(order[k])
		}
		dst.X = c.space.Vector(dst.X, user, r.item(k, r.candidates))
	}
}

func (r *Reading) item(at, n int) []int8 {
	width := len(r.Items) / n
	return r.Items[at*width : (at+1)*width]
}

func (e *entry) beginContext(r *Reading) {
	e.hasContext, e.ofUser = true, len(r.User)
	e.context = append(e.context[:0], r.User...)
}

// addContext appends the context of the item shown next, which is the record's candidate at a position of n.
func (e *entry) addContext(r *Reading, at, n int) { e.context = append(e.context, r.item(at, n)...) }

// holds reports whether steps, of which the first ofUser are the user's, fit the declared features.
func (c *Context) holds(steps []int8, ofUser int, has bool) bool {
	if !has || ofUser != c.ofUser() || len(steps) != ofUser+len(c.space.Item()) {
		return false
	}
	segment, _ := c.split(steps[:ofUser])
	return segment >= 0 && int(segment) < c.space.UserSegments()
}

// vector appends the features of steps that fit c, for an impression that began then.
func (c *Context) vector(dst, steps []int8, ofUser int, began event.Millis) (x []int8, segment int32) {
	segment, user := c.split(steps[:ofUser])
	return c.space.Vector(dst, user, steps[ofUser:]), c.space.At(segment, began)
}

// hasSegments reports whether segments are declared. Their numbers, up to 127, precede a user's steps.
func (c *Context) hasSegments() bool { return c.space.UserSegments() > 1 }

func (c *Context) ofUser() int {
	n := len(c.space.User())
	if c.hasSegments() {
		n++
	}
	return n
}

func (c *Context) split(user []int8) (segment int32, steps []int8) {
	if !c.hasSegments() {
		return 0, user
	}
	return int32(user[0]), user[1:]
}

// maxCategories bounds the cached names of categories.
const maxCategories = 1 << 14

// Categorise passes the categories of an impression's candidates, in the record's order, to a learner that uses categories.
func (c *Context) Categorise(l delay.Learner, r *Reading, imp *event.Impression, items []policy.Item) {
	if !c.space.Categories() {
		return
	}
	for k := range imp.Context.Candidates {
		if name := imp.Context.Candidates[k].Category; len(name) > 0 {
			l.Categorise(items[k], r.category(name))
		}
	}
}

func (r *Reading) category(name []byte) string {
	kept, ok := r.categories[string(name)]
	switch {
	case ok:
		return kept
	case r.categories == nil:
		r.categories = map[string]string{}
	case len(r.categories) >= maxCategories:
		clear(r.categories)
	}
	kept = string(name)
	r.categories[kept] = kept
	return kept
}
