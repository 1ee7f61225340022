package features

import (
	"math"
	"strconv"
	"time"
)

// ageSteps are how many coordinates an item's age has. Knots lie at ages of 4^k − 1 minutes, k = 0 to ageSteps, the last at 45 days; between two
// of them what payoffs differ by is linear in the logarithm of the age and a minute, and beyond the last it stays as it is. The first knot, of a
// new item, has no coordinate of its own.
const ageSteps = 8

// Width is how many coordinates Vector gives: all but those of the age.
func (s *Space) Width() int { return s.Declared() + len(s.cross) }

// HasAge tells whether items' ages are features.
func (s *Space) HasAge() bool { return s.declared.Age }

// AppendAge appends the coordinates of an age in milliseconds, where ages are features.
func (s *Space) AppendAge(dst []int8, age int64) []int8 {
	if !s.declared.Age {
		return dst
	}
	at := min(math.Log2(1+float64(max(age, 0))/float64(time.Minute.Milliseconds()))/2, ageSteps)
	below := int(at)
	share := int8(math.Round((at - float64(below)) * One))
	for k := 1; k <= ageSteps; k++ {
		switch k {
		case below:
			dst = append(dst, One-share)
		case below + 1:
			dst = append(dst, share)
		default:
			dst = append(dst, 0)
		}
	}
	return dst
}

// ageNames name the coordinates of the age.
func ageNames() (names []string) {
	minutes := 1
	for range ageSteps {
		minutes *= 4
		names = append(names, "age "+ageText(minutes-1))
	}
	return names
}

// ageText is a number of minutes in the largest unit that it has one of.
func ageText(minutes int) string {
	switch {
	case minutes >= 2*24*60:
		return strconv.Itoa(minutes/(24*60)) + "d"
	case minutes >= 2*60:
		return strconv.Itoa(minutes/60) + "h"
	}
	return strconv.Itoa(minutes) + "m"
}
