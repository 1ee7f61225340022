package contextual

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
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

// Append appends the fit with blanks between: its number, its variances, A and f.
func (m *Model) Append(dst []byte) []byte {
	number := m.now.number
	if m.heeds {
		number = 1 // the number of fits is each process's own
	}
	return m.AppendVariances(append(strconv.AppendUint(dst, number, 10), ' '), m.now.a, m.now.f)
}

var errFit = errors.New("the value is no fit of so many features")

// Load restores a fit that Append wrote. It fails without a change if the text is malformed.
func (m *Model) Load(value []byte) error {
	number, variances, _ := bytes.Cut(value, []byte{' '})
	t := &m.trial
	kappa, err := t.parse(variances, t.a, t.f)
	if err != nil {
		return err
	}
	if t.number, err = strconv.ParseUint(string(number), 10, 64); err != nil || !t.invert(m.group) {
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

// AppendVariances appends variances with blanks between: since, number of payoffs, σ², ridges, κ of all levels. More numbers follow.
func (m *Model) AppendVariances(dst []byte, more ...[]float64) []byte {
	f := m.now
	dst = strconv.AppendInt(dst, f.since, 10)
	dst = strconv.AppendInt(append(dst, ' '), f.learned, 10)
	for _, x := range slices.Concat([]float64{f.variance}, f.lambda[:], m.kappa[:], slices.Concat(more...)) {
		dst = strconv.AppendFloat(append(dst, ' '), x, 'g', -1, 64)
	}
	return dst
}

// TakeVariances loads variances that AppendVariances wrote; Refit must follow. It changes nothing if the text is malformed.
func (m *Model) TakeVariances(text []byte) error {
	f, t := &m.fit, &m.trial
	kappa, err := t.parse(text)
	if err != nil {
		return err
	}
	f.since, f.learned, f.variance, f.lambda, m.kappa = t.since, t.learned, t.variance, t.lambda, kappa
	f.number++
	m.recount()
	return nil
}

// parse reads the output of AppendVariances, and returns κ.
func (f *fit) parse(text []byte, more ...[]float64) (kappa [MaxLevels]float64, err error) {
	words, variance := bytes.Fields(text), [1]float64{}
	lists := append([][]float64{variance[:], f.lambda[:], kappa[:]}, more...)
	if len(words) != 2+len(slices.Concat(lists...)) {
		return kappa, errFit
	}
	if f.since, err = strconv.ParseInt(string(words[0]), 10, 64); err != nil {
		return kappa, errFit
	}
	if f.learned, err = strconv.ParseInt(string(words[1]), 10, 64); err != nil {
		return kappa, errFit
	}
	words = words[2:]
	for k, list := range lists {
		for j := range list {
			x, err := strconv.ParseFloat(string(words[j]), 64)
			if err != nil || math.IsInf(x, 0) || math.IsNaN(x) || k < 3 && !(x > 0) {
				return kappa, errFit
			}
			list[j] = x
		}
		words = words[len(list):]
	}
	f.variance = variance[0]
	return kappa, nil
}
