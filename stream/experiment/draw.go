package experiment

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
)

type Arm struct {
	Name  string
	Share float64 // of all units, above 0; they add up to 1
}

// Draw assigns arms to units. It is immutable and safe for concurrent use.
type Draw struct {
	prefix xxhash.Digest
	upTo   []float64 // cumulative shares, without the last arm
}

// newDraw expects arms in the order of their names.
func newDraw(experiment string, run int32, arms []Arm) Draw {
	var d Draw
	d.prefix.Reset()
	_, _ = d.prefix.WriteString(experiment + "\x00" + strconv.Itoa(int(run)) + "\x00")
	sum := 0.0
	for _, a := range arms[:len(arms)-1] {
		sum += a.Share
		d.upTo = append(d.upTo, sum)
	}
	return d
}

// Arm returns the first arm, in the order of names, whose cumulative share exceeds the unit's Uniform.
func (d *Draw) Arm(unit []byte) int {
	u := d.Uniform(unit)
	for k, upTo := range d.upTo {
		if upTo > u {
			return k
		}
	}
	return len(d.upTo)
}

// Uniform maps a unit to [0,1): the upper 53 bits of the finaliser of SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014) of xxhash64 over experiment, run and unit, separated by bytes of 0.
func (d *Draw) Uniform(unit []byte) float64 {
	h := d.prefix
	_, _ = h.Write(unit)
	return float64(finalise(h.Sum64())>>11) / (1 << 53)
}

// finalise is the finaliser of SplitMix64.
func finalise(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// GroupCount is the number of user groups.
const GroupCount = 1024

func GroupOf(user []byte) int { return int(xxhash.Sum64(user) % GroupCount) }

// PeriodOf returns the period of an impression. began and length are in milliseconds; periods count from 1970. A length of 0, for arms
// drawn only once, gives period 0.
func PeriodOf(began, length int64) int64 {
	if length == 0 {
		return 0
	}
	p := began / length
	if began%length < 0 {
		p--
	}
	return p
}

// AppendUnit appends a group's unit in a period, as in records: "1f3@2945" if arms are drawn each period (periodic), "1f3" if only once.
func AppendUnit(dst []byte, group int, period int64, periodic bool) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, digits[group>>8&15], digits[group>>4&15], digits[group&15])
	if periodic {
		dst = strconv.AppendInt(append(dst, '@'), period, 10)
	}
	return dst
}

// ParseUnit reads exactly the output of AppendUnit.
func ParseUnit(text string) (group int, period int64, periodic, ok bool) {
	name := text
	if len(text) > 4 && text[3] == '@' {
		var err error
		if period, err = strconv.ParseInt(text[4:], 10, 64); err != nil {
			return 0, 0, false, false
		}
		name, periodic = text[:3], true
	}
	g, err := strconv.ParseUint(name, 16, 64)
	if err != nil || g >= GroupCount {
		return 0, 0, false, false
	}
	var again [24]byte
	if string(AppendUnit(again[:0], int(g), period, periodic)) != text {
		return 0, 0, false, false
	}
	return int(g), period, periodic, true
}
