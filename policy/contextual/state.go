package contextual

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
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
	t, r := &m.trial, words.Of(value, ' ')
	number, kappa := r.Int(0, math.MaxInt64), t.read(&r, t.a, t.f)
	if r.End(errFit) != nil || !t.invert(m.group) {
		return errFit
	}
	t.number = uint64(number)
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
	dst = words.Append(dst, ' ', f.since, f.learned)
	return words.AppendFloats(dst, ' ', slices.Concat([]float64{f.variance}, f.lambda[:], m.kappa[:], slices.Concat(more...))...)
}

// TakeVariances loads variances that AppendVariances wrote; Refit must follow. It changes nothing if the text is malformed.
func (m *Model) TakeVariances(text []byte) error {
	f, t, r := &m.fit, &m.trial, words.Of(text, ' ')
	kappa := t.read(&r)
	if err := r.End(errFit); err != nil {
		return err
	}
	f.since, f.learned, f.variance, f.lambda, m.kappa = t.since, t.learned, t.variance, t.lambda, kappa
	f.number++
	m.recount()
	return nil
}

// read reads the output of AppendVariances, and returns κ.
func (f *fit) read(r *words.Reader, more ...[]float64) (kappa [MaxLevels]float64) {
	f.since, f.learned = r.Int(math.MinInt64, math.MaxInt64), r.Int(math.MinInt64, math.MaxInt64)
	f.variance = r.Float(math.SmallestNonzeroFloat64, math.MaxFloat64)
	for k, list := range append([][]float64{f.lambda[:], kappa[:]}, more...) {
		low := -math.MaxFloat64
		if k < 2 {
			low = math.SmallestNonzeroFloat64
		}
		for j := range list {
			list[j] = r.Float(low, math.MaxFloat64)
		}
	}
	return kappa
}
