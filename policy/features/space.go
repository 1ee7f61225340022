package features

import (
	"fmt"
	"math"
	"slices"
)

// Feature is a declared number of users or items.
type Feature struct {
	Name string
	// Low and High are its range. Numbers beyond are clamped; the resolution is a 254th.
	Low, High float64
	// Log spaces steps evenly in SignedLog, for numbers that are mostly a small part of the range.
	Log bool
}

// Names of item features that each candidate carries.
const (
	Utility   = "utility"
	Predicted = "predicted" // its range must be that of payoffs
)

// Declaration declares a learner's features.
type Declaration struct {
	User, Item []Feature
	// Cross are pairs of names, of user or item features, whose products are features, too.
	Cross [][2]string
	// Segments are the names of user groups for whom items may pay differently, numbered from 1.
	Segments []string
	// Categories says that items have categories, within which items may pay alike.
	Categories bool
	// Clock declares the levels of the clock at which items may pay differently.
	Clock Clock
	// Age says that payoffs may depend on the time since an item was first met.
	Age bool
}

const (
	// MaxDim bounds the number of coordinates.
	MaxDim = 64
	// MaxSegments bounds declared segments: with users in none of them, numbers reach 127.
	MaxSegments = 127
	// maxClockSegments bounds segments beside a clock, whose levels multiply them.
	maxClockSegments = 15
	// One is the integer that stands for 1.
	One = 127
)

// Group is a group of coordinates, which share a ridge: they are expected to be of like importance.
type Group uint8

// The groups, in the order of their coordinates.
const (
	Intercept Group = iota
	OfUser
	OfItem
	OfCross
	OfAge
	Groups // their number
	// InSegments is no group, but the place of a Fault.
	InSegments = Groups
)

func (g Group) String() string {
	return [...]string{"intercept", "user", "item", "cross", "age", "segments"}[g]
}

// Fault is a fault of a Declaration.
type Fault struct {
	Group Group // the list: OfUser, OfItem, OfCross or InSegments; Intercept for all together
	At    int   // index in the list
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

// Check returns all faults.
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

func (d *Declaration) mostSegments() int {
	if d.Clock.On() {
		return maxClockSegments
	}
	return MaxSegments
}

// Space defines a learner's coordinates: an intercept of 1, user's, item's, products, the item's age. It is immutable.
type Space struct {
	declared  Declaration
	cross     [][2]uint8 // coordinates
	utility   int        // index in the item's features; -1 if undeclared
	predicted int
}

// New returns the space, or the first fault that Check finds.
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

// User returns users' features in declared order. Callers must not change them.
func (s *Space) User() []Feature { return s.declared.User }

// Item returns items' features likewise, Utility and Predicted included if declared.
func (s *Space) Item() []Feature { return s.declared.Item }

// UserSegments returns the number of user segments, one for users in none included.
func (s *Space) UserSegments() int { return 1 + len(s.declared.Segments) }

// Segments returns the number of segments: user segments times levels of the clock.
func (s *Space) Segments() int { return s.UserSegments() * s.declared.Clock.Levels() }

func (s *Space) Clock() *Clock { return &s.declared.Clock }

// At returns the number, below Segments, of a user segment at a Unix time in milliseconds.
func (s *Space) At(segment int32, at int64) int32 {
	c := &s.declared.Clock
	return segment*int32(c.Levels()) + int32(c.level(at))
}

// Segment returns the number of a named segment, below UserSegments; 0 and false if it is not declared.
func (s *Space) Segment(name []byte) (number int32, declared bool) {
	for k := range s.declared.Segments {
		if s.declared.Segments[k] == string(name) { // does not allocate
			return int32(k + 1), true
		}
	}
	return 0, false
}

func (s *Space) Categories() bool { return s.declared.Categories }

// Dim returns the number of coordinates.
func (s *Space) Dim() int {
	if s.declared.Age {
		return s.Width() + ageSteps
	}
	return s.Width()
}

// Declared returns the number of coordinates without products and age.
func (s *Space) Declared() int { return 1 + len(s.declared.User) + len(s.declared.Item) }

// Given returns the length of a candidate's own list: its features without Utility and Predicted.
func (s *Space) Given() int {
	n := len(s.declared.Item)
	for _, at := range [...]int{s.utility, s.predicted} {
		if at >= 0 {
			n--
		}
	}
	return n
}

func (s *Space) HasUtility() bool { return s.utility >= 0 }

func (s *Space) HasPredicted() bool { return s.predicted >= 0 }

// Predicted returns Predicted's coordinate; -1 if undeclared.
func (s *Space) Predicted() int {
	if s.predicted < 0 {
		return -1
	}
	return 1 + len(s.declared.User) + s.predicted
}

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
