package policy

import "slices"

// Spec is an entry of the table of policies: what configuration, commands and documentation have to know of one. A new
// policy is a file with its entry, its place in Kinds, and its section in docs/algorithms.md.
type Spec struct {
	// Name is what configurations, ranking records and commands call it.
	Name string
	// About says in one line what it does, for people who choose.
	About string
	// Colour is that of its lines wherever any are drawn, as #rrggbb: in pictures and on the workers' page, on light and dark.
	Colour string
	// NotDirect says why payoffs must not be fed to it on arrival, so that it needs QPM-D; empty where they may.
	NotDirect string
	// Believes says that it assumes something of how payoffs spread: it looks at Parameters.Belief.
	Believes bool
	// Personal says that it goes by Input.Known where there is one, so that payoffs may depend on more than the item.
	Personal bool
	// Confident says that it works with confidence intervals: it looks at Parameters.Confidence.
	Confident bool

	// One of these makes it, and says for which payoffs it is: the first two for stochastic ones, the others for adversarial
	// ones. What they make holds no state. They fail where a parameter is out of range.
	Rank    func(*Parameters) (Policy, error)
	Explore func(*Parameters) (Explorer, error)    // needs the distribution of windows
	Oppose  func(*Parameters) (Adversarial, error) // likewise
	Follow  func(*Parameters) (*Robust, error)     // likewise
}

// Parameters are what policies can be made with.
type Parameters struct {
	Belief     Belief
	Confidence Confidence
	// Eta is the learning rate of an adversarial policy: c of c/√t for ftrl, η itself for osmd; 0 is the policy's own.
	Eta float64
	// ByRank says that losses belong to utility ranks, else to items.
	ByRank bool
	// LookAgain is Robust's.
	LookAgain float64
}

// Kinds are all policies there are, in the order in which they are shown.
var Kinds = []*Spec{&mossKind, &optimisticKind, &thompsonKind, &klucbKind, &eliminationKind, &epsilonGreedyKind, &greedyKind, &utilityKind, &ftrlKind, &osmdKind, &robustKind}

// KindOf finds a policy by its name; nil where there is none.
func KindOf(name string) *Spec {
	if i := slices.IndexFunc(Kinds, func(k *Spec) bool { return k.Name == name }); i >= 0 {
		return Kinds[i]
	}
	return nil
}

// IsAdversarial tells for which payoffs it is.
func (k *Spec) IsAdversarial() bool { return k.Oppose != nil || k.Follow != nil }

// HasLosses tells whether it learns from estimated losses, as those do that Oppose makes.
func (k *Spec) HasLosses() bool { return k.Oppose != nil }

// NeedsWindows tells whether it has to know how far users look.
func (k *Spec) NeedsWindows() bool { return k.Rank == nil }
