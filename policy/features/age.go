package features

import (
	"math"
	"strconv"
	"time"
)

// ageSteps is the number of coordinates of an item's age. Knots are at ages of 4^k − 1 minutes, k = 0 to ageSteps, the last at 45
// days. Between knots effects are linear in log(age + 1 minute), beyond the last constant. Knot 0, a new item, has no coordinate.
const ageSteps = 8

// Width returns the number of Vector's coordinates: all but those of age.
func (s *Space) Width() int { return s.Declared() + len(s.cross) }

func (s *Space) HasAge() bool { return s.declared.Age }

// AppendAge appends the coordinates of an age in milliseconds, if age is declared.
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

func ageNames() (names []string) {
	minutes := 1
	for range ageSteps {
		minutes *= 4
		names = append(names, "age "+ageText(minutes-1))
	}
	return names
}

// ageText formats minutes in days from 2 days on, in hours from 2 hours on.
func ageText(minutes int) string {
	switch {
	case minutes >= 2*24*60:
		return strconv.Itoa(minutes/(24*60)) + "d"
	case minutes >= 2*60:
		return strconv.Itoa(minutes/60) + "h"
	}
	return strconv.Itoa(minutes) + "m"
}
