package admin

import "github.com/ranker-worker/ranker-worker/delay"

// FeatureReport is by how much a payoff is expected to change where a feature goes from the middle of its range to its end, in payoff ranges.
type FeatureReport struct {
	Feature string  `json:"feature"` // "intercept" is what is expected at the middle of all
	Effect  float64 `json:"effect"`
	SD      float64 `json:"sd"` // how far off that may be
}

func reportFeatures(all []delay.Coefficient) (r []FeatureReport) {
	for _, c := range all {
		r = append(r, FeatureReport{c.Name, c.Value, c.SD})
	}
	return r
}

// DeviationReport is by how much payoffs are taken to differ by one cause, in payoff ranges.
type DeviationReport struct {
	Level string  `json:"level"` // payoff: by chance, of one item in one context; or features, category, item or cell
	SD    float64 `json:"sd"`    // in standard deviations
}

// reportDeviations is nil where payoffs depend on the item alone.
func reportDeviations(s *delay.ContextualStatus) (r []DeviationReport) {
	for cause, sd := range s.Deviations {
		if s.Known && sd >= 0 {
			r = append(r, DeviationReport{delay.Cause(cause).String(), sd})
		}
	}
	return r
}

// AddReport is what one thing adds to the payoff that is expected of a candidate, in payoff ranges.
type AddReport struct {
	Level   string  `json:"level"`             // features, category, item or cell
	Feature string  `json:"feature,omitempty"` // which, where it is one; "intercept" is what is expected at the middle of all
	Adds    float64 `json:"adds"`
}

func reportParts(parts []delay.Contribution) (r []AddReport) {
	for _, p := range parts {
		r = append(r, AddReport{p.Cause.String(), p.Feature, p.Adds})
	}
	return r
}
