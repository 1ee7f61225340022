package main

import "github.com/ranker-worker/ranker-worker/internal/lab"

func with(delay string, policies ...string) lab.Settings {
	return lab.Settings{Policies: policies, Delays: []string{delay}}
}

// paper is the paper's algorithm for stochastic payoffs, as printed.
func paper() lab.Settings {
	s := with("qpmd", "elimination")
	s.Radius = "paper"
	return s
}

func withPrior(prior string, s lab.Settings) lab.Settings {
	s.Prior = prior
	return s
}

func withInstances(limits []int, policies ...string) lab.Settings {
	return lab.Settings{Policies: policies, MaxInstances: limits}
}

// studies are the experiments that the documentation shows.
func studies() []study {
	const million, late = 1_000_000, 1000
	everything := []lab.Settings{paper(), with("direct", "moss", "optimistic", "thompson", "greedy")}
	direct := with("direct", "moss", "optimistic", "thompson", "egreedy", "greedy", "robust")
	delayed := lab.PayoffDelay{Mean: late}
	adversarial := []lab.Settings{
		withInstances([]int{0}, "osmd"), withInstances([]int{0, 64, 1}, "ftrl"), with("direct", "moss", "thompson", "optimistic", "robust"),
	}
	byRank := withInstances([]int{0, 1}, "ftrl")
	byRank.LossIndex = "rank"
	// Payoffs that come late or never: with each law of silence, and the paper's way.
	silences := func(about string, s lab.Scenario, further ...lab.Settings) study {
		laws := with("direct", "moss")
		laws.Silences = []string{"waits", "at_once"}
		rows := []lab.Settings{with("direct", "moss", "optimistic", "thompson", "klucb", "greedy", "utility", "robust"), laws, with("qpmd", "elimination")}
		return study{string(s), about, lab.Experiment{Scenario: s, Horizon: s.DefaultHorizon()}, append(rows, further...)}
	}
	return []study{
		silences("Few are paid, late, and the others never.", "conversions", withInstances([]int{1}, "ftrl")),
		silences("Likewise, of items that come and go.", "churn"),
		silences("Most are paid, days late.", "mostly-paid", withInstances([]int{1}, "ftrl")),
		silences("Few pay, and some pay very much.", "revenue"),
		silences("Some sales come back, ten days later.", "refunds"),
		silences("Spending of customers in a year, from their first purchase on, in dollars.", "customers"),
		silences("Who pays much early pays little late.", "traces-contrary"),
		{"blocks", "The paper's worst case: windows that grow, one block after the other.",
			lab.Experiment{Scenario: "blocks", Horizon: million}, everything},
		{"lazy", "The same items, and windows that are drawn, short ones mostly.",
			lab.Experiment{Scenario: "lazy", Horizon: million}, everything},
		{"mixed", "Other means, and windows of any length.",
			lab.Experiment{Scenario: "mixed", Horizon: million}, everything},
		{"changing", "Each user has an order of his own.",
			lab.Experiment{Scenario: "changing", Horizon: million}, everything},
		{"lazy-late", "Payoffs come late.",
			lab.Experiment{Scenario: "lazy", Horizon: 200_000, PayoffDelay: delayed},
			[]lab.Settings{paper(), with("qpmd", "moss", "optimistic"), direct}},
		{"catalog", "Many items, few payoffs of each, late.",
			lab.Experiment{Scenario: "catalog", Horizon: 100_000, PayoffDelay: delayed},
			[]lab.Settings{paper(), direct, withPrior("none", with("direct", "moss", "thompson"))}},
		{"stationary", "For adversarial payoffs, if nobody is an adversary.",
			lab.Experiment{Scenario: "stationary", Horizon: 100_000, PayoffDelay: delayed}, adversarial},
		{"constrained", "Payoffs that rise and fall together.",
			lab.Experiment{Scenario: "constrained", Horizon: 100_000, PayoffDelay: delayed}, adversarial},
		{"switching", "The best item changes once, without notice. Regret below zero: better than any fixed ranking.",
			lab.Experiment{Scenario: "switching", Horizon: 100_000, PayoffDelay: delayed, Runs: 64}, adversarial},
		{"ranks", "Payoffs belong to the place in the user's order, not to the item.",
			lab.Experiment{Scenario: "ranks", Horizon: 100_000, PayoffDelay: delayed},
			[]lab.Settings{byRank, withInstances([]int{1}, "ftrl"), with("direct", "moss", "robust")}},
	}
}
