package delay

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// shop is a space of four coordinates.
func shop(t require.TestingT) *features.Space {
	s, err := features.New(features.Declaration{User: []features.Feature{{Name: "age", High: 100}},
		Item: []features.Feature{{Name: features.Predicted, High: 1}}, Cross: [][2]string{{"age", features.Predicted}}})
	require.NoError(t, err)
	return s
}

// randomRow is the coordinates of a candidate of a decision.
func randomRow(t require.TestingT, key policy.Key, candidate int) []int8 {
	return shop(t).Vector(nil, []int8{int8(key.Uint64(0))}, []int8{int8(key.Uint64(uint64(candidate) + 1))})
}

// contextOf is a context for n candidates where a learner needs one.
func contextOf(l Learner, key policy.Key, n int) *policy.Context {
	if !l.Needs().Context {
		return nil
	}
	c := &policy.Context{}
	for k := range n {
		c.X = append(c.X, randomRow(panics{}, key, k)...)
	}
	return c
}

// rowOf is the row of a candidate in contextOf.
func rowOf(l Learner, key policy.Key, candidates []policy.Item, i policy.Item) []int8 {
	if !l.Needs().Context {
		return nil
	}
	return randomRow(panics{}, key, slices.Index(candidates, i))
}

type panics struct{}

func (panics) Errorf(string, ...any) {}
func (panics) FailNow()              { panic("it cannot be made") }

func personalKinds() []kind {
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	given := policy.Belief{Sigma: 0.5}
	personal := func(name string, b policy.Belief, s Silence) func(require.TestingT) Learner {
		return func(t require.TestingT) Learner {
			p, err := policy.KindOf(name).Rank(&policy.Parameters{Belief: b})
			require.NoError(t, err)
			l, err := NewPersonal(p, PersonalConfig{Space: shop(t), Belief: b, Silence: s})
			require.NoError(t, err)
			return l
		}
	}
	return []kind{
		{"direct/moss, features", personal("moss", belief, Silence{})},
		{"direct/thompson, features, silence ages", personal("thompson", belief, Silence{Law: SilenceAges, Default: 0.25, Horizon: lifeHorizon})},
		{"direct/greedy, features, silence at once", personal("greedy", belief, Silence{Law: SilenceAtOnce})},
		{"direct/optimistic, features, in parts", personal("optimistic", belief, Silence{Law: SilenceAges, Default: 0.5, Horizon: lifeHorizon, InParts: true})},
		{"direct/optimistic, features alone", personal("optimistic", given, Silence{Law: SilenceAtOnce})},
	}
}
