package lab

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"

	"github.com/ranker-worker/ranker-worker/config"
)

// number formats numbers of plots: 100,000, and two digits below 10; tiny ones are 0.
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

// integers matches integers that get separators of thousands.
var integers = regexp.MustCompile(`\d{4,}`)

func separated(text string) string {
	return integers.ReplaceAllStringFunc(text, func(digits string) string {
		n, err := strconv.Atoi(digits)
		if err != nil || strings.HasPrefix(digits, "0") {
			return digits
		}
		return config.Grouped(n)
	})
}

// powers marks powers of ten, every so many with a label, and, if all have one, their multiples without.
type powers struct{ every int }

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

// evenly marks equal steps, few where numbers are long.
type evenly struct{}

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

// symmetric is an axis that is linear up to about its value on both sides of zero, and logarithmic beyond.
type symmetric float64

func (s symmetric) Normalize(low, high, x float64) float64 {
	f := func(x float64) float64 { return math.Asinh(x / float64(s)) }
	return (f(x) - f(low)) / (f(high) - f(low))
}

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
