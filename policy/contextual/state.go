package contextual

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Common sets the values that all candidates share.
func (m *Model) Common(k *policy.Known) {
	k.Variance, k.Kappa = m.now.variance, 0
	k.Plain, k.LogDet, k.Ridge = m.config.Levels == 0, m.now.logDet, plainLambda
	if m.config.Levels > 0 {
		k.Kappa = m.kappa[0]
		if m.alone {
			k.Kappa = m.kappa[1]
		}
	}
}

// Coefficient returns θ̂_j and its standard deviation.
func (m *Model) Coefficient(j int) (value, sd float64) {
	return m.now.theta[j], math.Sqrt(m.now.variance * m.now.inverse[packed(j)+j])
}

// Fits returns the number of fits.
func (m *Model) Fits() uint64 { return m.now.number }

// Append appends the fit with blanks between: its number, since, payoffs at the last learning, σ², ridges, κ of all levels, A and f.
func (m *Model) Append(dst []byte) []byte {
	f, number := m.now, m.now.number
	if m.heeds {
		number = 1 // the number of fits is each process's own
	}
	dst = strconv.AppendUint(dst, number, 10)
	dst = strconv.AppendInt(append(dst, ' '), f.since, 10)
	dst = strconv.AppendInt(append(dst, ' '), f.learned, 10)
	for _, list := range [...][]float64{{f.variance}, f.lambda[:], m.kappa[:], f.a, f.f} {
		for _, x := range list {
			dst = strconv.AppendFloat(append(dst, ' '), x, 'g', -1, 64)
		}
	}
	return dst
}

var errFit = errors.New("the value is no fit of so many features")

// Load restores a fit that Append wrote. It fails without a change if the text is malformed.
func (m *Model) Load(value []byte) error {
	words := bytes.Fields(value)
	if len(words) != 4+int(features.Groups)+MaxLevels+packed(m.dim)+m.dim {
		return errFit
	}
	t := &m.trial
	var err error
	if t.number, err = strconv.ParseUint(string(words[0]), 10, 64); err != nil {
		return errFit
	}
	if t.since, err = strconv.ParseInt(string(words[1]), 10, 64); err != nil {
		return errFit
	}
	if t.learned, err = strconv.ParseInt(string(words[2]), 10, 64); err != nil {
		return errFit
	}
	var kappa [MaxLevels]float64
	var variance [1]float64
	words = words[3:]
	for k, list := range [...][]float64{variance[:], t.lambda[:], kappa[:], t.a, t.f} {
		for j := range list {
			x, err := strconv.ParseFloat(string(words[j]), 64)
			if err != nil || math.IsInf(x, 0) || math.IsNaN(x) || k < 3 && !(x > 0) {
				return errFit
			}
			list[j] = x
		}
		words = words[len(list):]
	}
	t.variance = variance[0]
	if !t.invert(m.group) {
		return errFit
	}
	m.fit, m.trial, m.kappa = m.trial, m.fit, kappa
	if m.base != nil {
		m.now = &m.fit
		m.Stored()
		m.Refresh()
		return nil
	}
	m.recount()
	return nil
}

// AppendVariances appends a global model's variances with blanks between: since, number of payoffs, σ², ridges, κ of all levels.
func (m *Model) AppendVariances(dst []byte) []byte {
	f := &m.fit
	dst = strconv.AppendInt(dst, f.since, 10)
	dst = strconv.AppendInt(append(dst, ' '), f.learned, 10)
	for _, x := range slices.Concat([]float64{f.variance}, f.lambda[:], m.kappa[:]) {
		dst = strconv.AppendFloat(append(dst, ' '), x, 'g', -1, 64)
	}
	return dst
}

// TakeVariances loads variances that AppendVariances wrote; Refit must follow. It changes nothing if the text is malformed.
func (m *Model) TakeVariances(text []byte) error {
	words := bytes.Fields(text)
	if len(words) != 3+int(features.Groups)+MaxLevels {
		return errFit
	}
	since, err := strconv.ParseInt(string(words[0]), 10, 64)
	if err != nil {
		return errFit
	}
	learned, err := strconv.ParseInt(string(words[1]), 10, 64)
	if err != nil {
		return errFit
	}
	var all [1 + int(features.Groups) + MaxLevels]float64
	for k := range all {
		if all[k], err = strconv.ParseFloat(string(words[2+k]), 64); err != nil || !(all[k] > 0) || math.IsInf(all[k], 0) {
			return errFit
		}
	}
	f := &m.fit
	f.since, f.learned, f.variance = since, learned, all[0]
	copy(m.kappa[:], all[1+copy(f.lambda[:], all[1:]):])
	f.number++
	m.recount()
	return nil
}
