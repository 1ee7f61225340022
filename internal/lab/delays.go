package lab

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxDelay bounds constant delays and means of random ones, in impressions.
const MaxDelay = 10_000_000

// PayoffDelay is a delay of payoffs in impressions: the payoff of impression t is known from decision t+k+1 on.
type PayoffDelay struct {
	// Mean is k, or with Random its mean.
	Mean int64
	// Random makes k geometric: P(k) = (1/(1+M))·(M/(1+M))^k.
	Random bool
}

// ParsePayoffDelay reads a number of impressions, or geometric:M. It fails if it is malformed, or above MaxDelay.
func ParsePayoffDelay(text string) (PayoffDelay, error) {
	number, random := strings.CutPrefix(text, "geometric:")
	k, err := strconv.ParseInt(number, 10, 64)
	if err != nil || k < 0 || k > MaxDelay {
		return PayoffDelay{}, fmt.Errorf("must be a number of impressions from 0 to %d, or geometric: and the mean of such, not %q",
			MaxDelay, text)
	}
	return PayoffDelay{Mean: k, Random: random && k > 0}, nil
}

func (l PayoffDelay) String() string {
	if l.Random {
		return "geometric:" + strconv.FormatInt(l.Mean, 10)
	}
	return strconv.FormatInt(l.Mean, 10)
}

// MarshalJSON returns a number for a constant delay, else the command line's text.
func (l PayoffDelay) MarshalJSON() ([]byte, error) {
	if l.Random {
		return strconv.AppendQuote(nil, l.String()), nil
	}
	return strconv.AppendInt(nil, l.Mean, 10), nil
}

type lateness struct {
	constant int64
	scale    float64 // 1/log(M/(1+M)), negative; 0 where the delay is constant
	draws    *stream
}

func (l PayoffDelay) drawn(draws *stream) lateness {
	if !l.Random {
		return lateness{constant: l.Mean}
	}
	return lateness{scale: -1 / math.Log1p(1/float64(l.Mean)), draws: draws}
}

// draw returns the next delay, at most limit.
func (l *lateness) draw(limit int64) int64 {
	if l.scale == 0 {
		return l.constant
	}
	// P(k ≥ j) = (M/(1+M))^j, so k is the number of whole steps in log(u)/log(M/(1+M)) for a uniform u in (0,1].
	k := math.Log(1-l.draws.float64()) * l.scale
	if k >= float64(limit) {
		return limit
	}
	return int64(k)
}
