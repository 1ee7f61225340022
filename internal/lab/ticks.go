package lab

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"

	"github.com/ranker-worker/ranker-worker/config"
)

// number is how pictures write numbers, on axes and at line ends: 100,000, and two digits of what is below 10. What is next to
// nothing is 0.
func number(v float64) string {
	sign, size := "", math.Abs(v)
	if size < 1e-6 {
		return "0"
	}
	text := strconv.FormatFloat(size, 'g', 2, 64)
	if rounded, err := strconv.ParseFloat(text, 64); err == nil && rounded < 10 {
		text = strconv.FormatFloat(rounded, 'f', -1, 64)
	} else {
		text = config.Grouped(int(math.Round(size)))
	}
	if v < 0 {
		sign = "−"
	}
	return sign + text
}

// integers are those in a text that have separators of thousands in a picture.
var integers = regexp.MustCompile(`\d{4,}`)

// separated writes a text's integers as number does.
func separated(text string) string {
	return integers.ReplaceAllStringFunc(text, func(digits string) string {
		n, err := strconv.Atoi(digits)
		if err != nil || strings.HasPrefix(digits, "0") {
			return digits
		}
		return config.Grouped(n)
	})
}

// powers marks powers of ten, and their multiples, without a number, where there are few of them. Of the powers one in every
// is numbered.
type powers struct{ every int }

// Ticks implements plot.Ticker.
func (p powers) Ticks(low, high float64) (ticks []plot.Tick) {
	for exponent := int(math.Floor(math.Log10(low) + 1e-9)); math.Pow10(exponent) <= high*1.0001; exponent++ {
		for k := 1; k < 10; k++ {
			v := float64(k) * math.Pow10(exponent)
			switch {
			case v < low*0.9999 || v > high*1.0001:
			case k == 1 && exponent%p.every == 0:
				ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
			case k == 1 || p.every == 1:
				ticks = append(ticks, plot.Tick{Value: v})
			}
		}
	}
	return ticks
}

// evenly marks steps of the same length: few where numbers are long.
type evenly struct{}

// Ticks implements plot.Ticker.
func (evenly) Ticks(low, high float64) (ticks []plot.Tick) {
	steps := 4
	if high >= 1e7 {
		steps = 2
	}
	for k := range steps + 1 {
		v := low + (high-low)*float64(k)/float64(steps)
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
	}
	return ticks
}

// symmetric is an axis that is linear up to about its value on either side of zero, and logarithmic beyond.
type symmetric float64

// Normalize implements plot.Normalizer.
func (s symmetric) Normalize(low, high, x float64) float64 {
	f := func(x float64) float64 { return math.Asinh(x / float64(s)) }
	return (f(x) - f(low)) / (f(high) - f(low))
}

// Ticks implements plot.Ticker.
func (s symmetric) Ticks(low, high float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for _, t := range (powers{every: 1}).Ticks(float64(s), max(high, -low)) {
		if t.Value <= high*1.0001 {
			ticks = append(ticks, t)
		}
		if t.Value <= -low*1.0001 {
			t.Value = -t.Value
			if t.Label != "" {
				t.Label = "−" + t.Label
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
