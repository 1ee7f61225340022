package delay

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
)

// kind is a way to make learners. Whatever every Learner promises is tested on all of them.
type kind struct {
	name string
	make func(t require.TestingT) Learner
}

func kinds() []kind {
	learned := WindowsConfig{Max: 4, EstimateEvery: 1000}
	given := func(t require.TestingT) WindowsConfig { return WindowsConfig{Given: geometricWindows(t)} }
	eliminate := func(t require.TestingT) policy.Policy {
		e, err := policy.NewElimination(policy.Confidence{Sigma: 0.05, AutoDelta: true})
		require.NoError(t, err)
		return e
	}
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	moss := func(t require.TestingT) policy.Policy {
		m, err := policy.NewMOSS(belief)
		require.NoError(t, err)
		return m
	}
	thompson := func(t require.TestingT) policy.Policy {
		m, err := policy.NewThompson(belief)
		require.NoError(t, err)
		return m
	}
	qpmd := func(t require.TestingT, w WindowsConfig) Learner {
		q, err := NewExploringQPMD(policy.NewEpsilonGreedy(), w)
		require.NoError(t, err)
		return q
	}
	direct := func(t require.TestingT, w WindowsConfig) Learner {
		d, err := NewExploringDirect(policy.NewEpsilonGreedy(), w, Silence{})
		require.NoError(t, err)
		return d
	}
	all := []kind{
		{"qpmd/elimination", func(t require.TestingT) Learner { return NewQPMD(eliminate(t)) }},
		{"qpmd/moss", func(t require.TestingT) Learner { return NewQPMD(moss(t)) }},
		{"qpmd/greedy", func(require.TestingT) Learner { return NewQPMD(policy.NewGreedy()) }},
		{"qpmd/egreedy", func(t require.TestingT) Learner { return qpmd(t, given(t)) }},
		{"qpmd/egreedy, windows learned", func(t require.TestingT) Learner { return qpmd(t, learned) }},
		{"direct/moss", func(t require.TestingT) Learner { return NewDirect(moss(t), Silence{}) }},
		{"direct/thompson", func(t require.TestingT) Learner { return NewDirect(thompson(t), Silence{}) }},
		{"direct/greedy", func(require.TestingT) Learner { return NewDirect(policy.NewGreedy(), Silence{}) }},
		{"direct/in flight", func(require.TestingT) Learner { return NewDirect(leastSampled{}, Silence{}) }},
		{"direct/moss, silence at once", func(t require.TestingT) Learner { return NewDirect(moss(t), Silence{Law: SilenceAtOnce}) }},
		{"direct/moss, per impression", func(t require.TestingT) Learner {
			return attracted(NewDirect(moss(t), Silence{Law: SilenceAges, Horizon: lifeHorizon}), 0)
		}},
		{"direct/thompson, per impression", func(t require.TestingT) Learner {
			return attracted(NewDirect(thompson(t), Silence{Law: SilenceAtOnce, Default: 0.25}), 0.25)
		}},
		{"direct/klucb, per impression", func(t require.TestingT) Learner {
			return attracted(NewDirect(policy.NewKLUCB(), Silence{Law: SilenceAges, Default: 0.25, Horizon: lifeHorizon}), 0.25)
		}},
		{"direct/greedy, per impression", func(t require.TestingT) Learner { return attracted(NewDirect(policy.NewGreedy(), Silence{}), 0) }},
		{"direct/egreedy, per impression", func(t require.TestingT) Learner {
			d, err := NewExploringDirect(policy.NewEpsilonGreedy(), learned, Silence{})
			require.NoError(t, err)
			return attracted(d, 0)
		}},
		{"direct/moss, silence ages", func(t require.TestingT) Learner {
			return NewDirect(moss(t), Silence{Law: SilenceAges, Default: 0.25, Horizon: lifeHorizon})
		}},
		{"direct/moss, silence ages, default of a sixth", func(t require.TestingT) Learner {
			return NewDirect(moss(t), Silence{Law: SilenceAges, Default: 1. / 6, Horizon: lifeHorizon})
		}},
		{"direct/greedy, silence ages", func(t require.TestingT) Learner {
			return NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Horizon: lifeHorizon})
		}},
		{"direct/moss, drift", func(t require.TestingT) Learner {
			return NewDirect(moss(t), Silence{Horizon: lifeHorizon, Drift: 1})
		}},
		{"direct/thompson, silence at once, drift", func(t require.TestingT) Learner {
			return NewDirect(thompson(t), Silence{Law: SilenceAtOnce, Default: 0.25, Horizon: lifeHorizon, Drift: 100})
		}},
		{"direct/moss, silence ages, drift", func(t require.TestingT) Learner {
			return NewDirect(moss(t), Silence{Law: SilenceAges, Default: 0.25, Horizon: lifeHorizon, Drift: 1000})
		}},
		{"direct/greedy, in parts, drift", func(require.TestingT) Learner {
			return NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Default: 0.5, Horizon: lifeHorizon, InParts: true, Drift: 1000})
		}},
		{"direct/moss, in parts", func(t require.TestingT) Learner {
			return NewDirect(moss(t), Silence{Law: SilenceAges, Default: 0.25, Horizon: lifeHorizon, InParts: true})
		}},
		{"direct/greedy, in parts", func(require.TestingT) Learner {
			return NewDirect(policy.NewGreedy(), Silence{Law: SilenceAges, Default: 1, Horizon: lifeHorizon, InParts: true})
		}},
		{"direct/thompson, in parts at once", func(t require.TestingT) Learner {
			return NewDirect(thompson(t), Silence{Law: SilenceAtOnce, Default: 0.5, InParts: true})
		}},
		{"direct/egreedy", func(t require.TestingT) Learner { return direct(t, given(t)) }},
		{"direct/egreedy, windows learned", func(t require.TestingT) Learner { return direct(t, learned) }},
	}
	robust := func(w func(t require.TestingT) WindowsConfig, halfLives ...time.Duration) func(t require.TestingT) Learner {
		return func(t require.TestingT) Learner {
			return newRobust(t, RobustConfig{Belief: belief, HalfLives: halfLives, Windows: w(t)})
		}
	}
	all = append(all, kind{"robust", robust(given, recency.DefaultHalfLives()...)}, kind{"robust, windows learned",
		robust(func(require.TestingT) WindowsConfig { return learned }, 5*time.Second, time.Minute)}, kind{"robust, silence",
		func(t require.TestingT) Learner {
			return newRobust(t, RobustConfig{Belief: belief, HalfLives: recency.DefaultHalfLives(), Windows: given(t),
				Silence: Silence{Law: SilenceAges, Default: 0.25}})
		}}, kind{"robust, per impression", func(t require.TestingT) Learner {
		return attracted(newRobust(t, RobustConfig{Belief: belief, HalfLives: recency.DefaultHalfLives(), Windows: learned,
			Silence: Silence{Law: SilenceAges, Default: 0.25}}), 0.25)
	}})
	all = append(all, contextualKinds()...)
	for _, b := range []policy.Belief{{Sigma: 0.5}, {Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}} {
		for _, f := range []func(policy.Belief) (policy.Policy, error){
			func(b policy.Belief) (policy.Policy, error) { return policy.NewMOSS(b) },
			func(b policy.Belief) (policy.Policy, error) { return policy.NewOptimistic(b) },
			func(b policy.Belief) (policy.Policy, error) { return policy.NewThompson(b) },
		} {
			p, err := f(b)
			name := fmt.Sprintf("%T, %v prior", p, b.Prior)
			all = append(all, kind{"qpmd/" + name, func(t require.TestingT) Learner {
				require.NoError(t, err)
				return NewQPMD(p)
			}}, kind{"direct/" + name, func(t require.TestingT) Learner {
				require.NoError(t, err)
				return NewDirect(p, Silence{})
			}})
		}
	}
	for _, index := range []LossIndex{LossByItem, LossByRank} {
		for _, instances := range []int{0, 1, 3} {
			c := BOLDConfig{MaxInstances: instances, Index: index, Windows: learned}
			name := fmt.Sprintf("bold/index %d, %d instances, ", index, instances)
			all = append(all, kind{name + "ftrl, windows learned", func(t require.TestingT) Learner {
				c := c
				c.Base = ftrlBase(t, index)
				return newBOLD(t, c, 0)
			}}, kind{name + "osmd", func(t require.TestingT) Learner {
				c := c
				c.Base, c.Windows = osmdBase(t, 0), given(t)
				return newBOLD(t, c, 0)
			}})
		}
	}
	return all
}

// newRobust makes one, except for the configured parts.
func newRobust(t require.TestingT, c RobustConfig) *Robust {
	var err error
	c.Policy, err = policy.NewRobust(policy.DefaultLookAgain)
	require.NoError(t, err)
	c.Horizon = lifeHorizon
	r, err := NewRobust(c)
	require.NoError(t, err)
	return r
}

// leastSampled is a policy that makes counts in flight visible: it ranks in increasing N, with or without them.
type leastSampled struct{}

var _ policy.Explainer = leastSampled{}

func (leastSampled) Rule() string                                            { return "the fewest" }
func (leastSampled) Weigh(*policy.Input, *policy.Workspace, []policy.Reason) {}
func (leastSampled) Rank(in *policy.Input, _ *policy.Workspace, dst []int32) {
	samples := func(position int32) float64 {
		e := in.Table.Evidence(in.Items[position])
		return e.W + e.Open
	}
	for k := range dst {
		dst[k] = int32(k)
	}
	slices.SortStableFunc(dst, func(a, b int32) int { return int(samples(a) - samples(b)) })
}
