package policy

// Spec describes a policy for configuration, commands and documentation. A new policy is a file with its Spec, an entry in Specs,
// and a section below docs/understand.
type Spec struct {
	// Name is its name in configurations, ranking records and commands.
	Name string
	// About describes it in one line.
	About string
	// Colour is the colour of its lines in plots and on the page, as #rrggbb, on light and dark.
	Colour string
	// NotDirect is the reason for which payoffs must not be fed on arrival, so that it needs QPM-D; empty if they may.
	NotDirect string
	// Believes says that it uses Parameters.Belief.
	Believes bool
	// Contextual says that it uses Input.Known, so that payoffs may depend on more than the item.
	Contextual bool
	// Confident says that it uses Parameters.Confidence.
	Confident bool

	// One of these makes it: the first two for stochastic payoffs, the others for adversarial ones. The result has no state. They
	// fail if a parameter is out of range.
	Rank    func(*Parameters) (Policy, error)
	Explore func(*Parameters) (*EpsilonGreedy, error) // needs the distribution of windows
	Oppose  func(*Parameters) (Adversarial, error)    // likewise
	Follow  func(*Parameters) (*Robust, error)        // likewise
}

// Parameters are the settings of policies.
type Parameters struct {
	Belief     Belief
	Confidence Confidence
	// Eta is an adversarial policy's learning rate: c of c/√t for ftrl, η for osmd; 0 is the policy's default.
	Eta float64
	// ByRank says that losses belong to utility ranks, not to items.
	ByRank bool
	// LookAgain is Robust's, see NewRobust.
	LookAgain float64
}

func (k *Spec) IsAdversarial() bool { return k.Oppose != nil || k.Follow != nil }

// HasLosses returns whether it learns from estimated losses.
func (k *Spec) HasLosses() bool { return k.Oppose != nil }

// NeedsWindows returns whether it uses the distribution of attention windows.
func (k *Spec) NeedsWindows() bool { return k.Rank == nil }
