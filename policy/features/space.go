package features

import (
	"fmt"
	"math"
	"slices"
)

// Feature is a number that is declared of users or of items.
type Feature struct {
	Name string
	// Low and High are its range: what is beyond is taken to its end. What is finer than a 254th of it is rounded away.
	Low, High float64
	// Log has the steps evenly spaced by SignedLog of the number: for numbers most of which are a small part of the range.
	Log bool
}

// The names of item features that a candidate carries by itself, whatever else its features are.
const (
	Utility   = "utility"
	Predicted = "predicted" // its range must be that of payoffs
)

// Declaration is what is declared of a learner's features.
type Declaration struct {
	User, Item []Feature
	// Cross are pairs of names, of users' features, of items', or of one each: their products are features too.
	Cross [][2]string
	// Segments are the names of those groups of users for whom items may pay differently, in the order of their numbers from 1 on.
	Segments []string
	// Categories says that items have categories, whose items may pay alike.
	Categories bool
	// Clock says at which turns of the clock items may pay differently.
	Clock Clock
	// Age says that payoffs may depend on how long ago an item was first met.
	Age bool
}

const (
	// MaxDim is the most coordinates that there may be.
	MaxDim = 64
	// MaxSegments is how many segments are declared at the most: with the users who are in none of them their numbers go to 127.
	MaxSegments = 127
	// MaxClockSegments is how many may be declared beside a clock, whose levels each of them has.
	MaxClockSegments = 15
	// One is what stands for 1.
	One = 127
)

// Group is the part of the coordinates that one belongs to. Those of a group are expected to be of like importance.
type Group uint8

// The groups, in the order in which their coordinates stand.
const (
	Intercept Group = iota
	OfUser
	OfItem
	OfCross
	OfAge
	Groups // how many there are
	// InSegments is no group: it says where a Fault is.
	InSegments = Groups
)

func (g Group) String() string {
	return [...]string{"intercept", "user", "item", "cross", "age", "segments"}[g]
}

// Fault is something wrong with a Declaration.
type Fault struct {
	Group Group // which list: OfUser, OfItem, OfCross or InSegments; Intercept for all together
	At    int   // which of the list
	What  string
}

func (f *Fault) Error() string {
	switch f.Group {
	case Intercept:
		return "features: " + f.What
	case InSegments:
		return fmt.Sprintf("features: segment %d: %s", f.At+1, f.What)
	}
	return fmt.Sprintf("features: %s feature %d: %s", f.Group, f.At+1, f.What)
}

// Check finds all faults.
func (d *Declaration) Check() (all []*Fault) {
	say := func(g Group, at int, format string, args ...any) {
		all = append(all, &Fault{g, at, fmt.Sprintf(format, args...)})
	}
	names := map[string]bool{}
	for _, list := range [...]struct {
		group    Group
		features []Feature
	}{{OfUser, d.User}, {OfItem, d.Item}} {
		for k, f := range list.features {
			switch {
			case f.Name == "":
				say(list.group, k, "it has no name")
			case names[f.Name]:
				say(list.group, k, "there are two features named %s", f.Name)
			case list.group == OfUser && (f.Name == Utility || f.Name == Predicted):
				say(list.group, k, "%s is a number of a candidate, not of a user", f.Name)
			}
			names[f.Name] = true
			if !(f.Low < f.High) || math.IsInf(f.High-f.Low, 0) {
				say(list.group, k, "the range of %s must rise from one number to another, not go from %v to %v", f.Name, f.Low, f.High)
			}
		}
	}
	for k, pair := range d.Cross {
		for _, name := range pair {
			if !names[name] {
				say(OfCross, k, "there is no feature named %q", name)
			}
		}
		if other := slices.IndexFunc(d.Cross[:k], func(c [2]string) bool {
			return c == pair || c == [2]string{pair[1], pair[0]}
		}); other >= 0 {
			say(OfCross, k, "it is cross %d again", other+1)
		}
	}
	for k, name := range d.Segments {
		switch {
		case name == "":
			say(InSegments, k, "it has no name")
		case slices.Contains(d.Segments[:k], name):
			say(InSegments, k, "there are two segments named %s", name)
		case k == d.mostSegments():
			say(InSegments, k, "%d segments are too many: there may be %d", len(d.Segments), k)
		}
	}
	most := MaxDim
	if d.Age {
		most -= ageSteps
	}
	if n := 1 + len(d.User) + len(d.Item) + len(d.Cross); n > most {
		say(Intercept, 0, "%d features and products are too many: there may be %d", n-1, most-1)
	}
	return all
}

// mostSegments is how many segments there may be.
func (d *Declaration) mostSegments() int {
	if d.Clock.On() {
		return MaxClockSegments
	}
	return MaxSegments
}

// Space are the coordinates of a learner's features: an intercept that is always 1, the user's, the item's, then their products, and the item's age. It is
// not changed once it is made.
type Space struct {
	declared  Declaration
	cross     [][2]uint8 // coordinates
	utility   int        // of the item's; -1 where it is none
	predicted int
}

// New makes it, or says the first of what Check finds.
func New(d Declaration) (*Space, error) {
	if faults := d.Check(); len(faults) > 0 {
		return nil, faults[0]
	}
	s := &Space{declared: Declaration{slices.Clone(d.User), slices.Clone(d.Item), slices.Clone(d.Cross), slices.Clone(d.Segments), d.Categories, d.Clock, d.Age}}
	at := map[string]uint8{}
	for k, f := range append(slices.Clone(d.User), d.Item...) {
		at[f.Name] = uint8(k + 1)
	}
	for _, pair := range d.Cross {
		s.cross = append(s.cross, [2]uint8{at[pair[0]], at[pair[1]]})
	}
	named := func(name string) int {
		return slices.IndexFunc(d.Item, func(f Feature) bool { return f.Name == name })
	}
	s.utility, s.predicted = named(Utility), named(Predicted)
	return s, nil
}

// User and Item are the features of either, in the order declared. Callers must not change them.
func (s *Space) User() []Feature { return s.declared.User }

// Item likewise; Utility and Predicted are among them where they are declared.
func (s *Space) Item() []Feature { return s.declared.Item }

// UserSegments are how many segments of users are told apart, those who are in none of them counted as one: 1 where none are declared.
func (s *Space) UserSegments() int { return 1 + len(s.declared.Segments) }

// Segments are how many segments are told apart: those of users, each at all levels of the clock.
func (s *Space) Segments() int { return s.UserSegments() * s.declared.Clock.Levels() }

// Clock returns the declared clock.
func (s *Space) Clock() *Clock { return &s.declared.Clock }

// At is the number of a segment of users at a time in milliseconds since 1970, below Segments.
func (s *Space) At(segment int32, at int64) int32 {
	c := &s.declared.Clock
	return segment*int32(c.Levels()) + int32(c.level(at))
}

// Segment is the number of the segment of that name, below UserSegments; 0, and false, where it is not declared.
func (s *Space) Segment(name []byte) (number int32, declared bool) {
	for k := range s.declared.Segments {
		if s.declared.Segments[k] == string(name) { // this allocates nothing
			return int32(k + 1), true
		}
	}
	return 0, false
}

// Categories tells whether items have categories.
func (s *Space) Categories() bool { return s.declared.Categories }

// Dim is how many coordinates there are.
func (s *Space) Dim() int {
	if s.declared.Age {
		return s.Width() + ageSteps
	}
	return s.Width()
}

// Declared is how many coordinates there are without products.
func (s *Space) Declared() int { return 1 + len(s.declared.User) + len(s.declared.Item) }

// Given is how many numbers stand in a candidate's own list: its features without Utility and Predicted.
func (s *Space) Given() int {
	n := len(s.declared.Item)
	for _, at := range [...]int{s.utility, s.predicted} {
		if at >= 0 {
			n--
		}
	}
	return n
}

// HasUtility tells whether a candidate's utility is a feature.
func (s *Space) HasUtility() bool { return s.utility >= 0 }

// HasPredicted likewise, of what the platform predicts.
func (s *Space) HasPredicted() bool { return s.predicted >= 0 }

// Predicted is the coordinate of Predicted; -1 where there is none.
func (s *Space) Predicted() int {
	if s.predicted < 0 {
		return -1
	}
	return 1 + len(s.declared.User) + s.predicted
}

// Group is that of a coordinate.
func (s *Space) Group(coordinate int) Group {
	switch {
	case coordinate == 0:
		return Intercept
	case coordinate <= len(s.declared.User):
		return OfUser
	case coordinate < s.Declared():
		return OfItem
	case coordinate < s.Width():
		return OfCross
	}
	return OfAge
}

// Names names the coordinates, for people.
func (s *Space) Names() []string {
	names := []string{Intercept.String()}
	for _, f := range append(slices.Clone(s.declared.User), s.declared.Item...) {
		names = append(names, f.Name)
	}
	for _, pair := range s.declared.Cross {
		names = append(names, pair[0]+" × "+pair[1])
	}
	if s.declared.Age {
		names = append(names, ageNames()...)
	}
	return names
}
