package admin

import (
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
)

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

// DivisionReport says how finely a learner divides the clock and items' ages at present, and since when payoffs count.
type DivisionReport struct {
	Groups []GroupsReport `json:"groups,omitempty"`
	Since  string         `json:"since,omitempty"` // RFC 3339: payoffs count of selections that began then or later; empty: all count
}

// GroupsReport is the number of groups that a learner divides the day ("hour"), the week ("weekday") or items' ages ("age") into.
type GroupsReport struct {
	Of string `json:"of"`
	N  int    `json:"groups"`
}

// reportDivision is nil where payoffs depend on the item alone.
func reportDivision(s *delay.ContextualStatus) *DivisionReport {
	if !s.Known {
		return nil
	}
	r := &DivisionReport{}
	for _, g := range s.Groups {
		r.Groups = append(r.Groups, GroupsReport(g))
	}
	if s.Since != 0 {
		r.Since = time.UnixMilli(s.Since).UTC().Format(time.RFC3339)
	}
	return r
}

// AddReport is what one thing adds to the payoff that is expected of a candidate, in payoff ranges.
type AddReport struct {
	Level   string  `json:"level"`             // features, category, item or cell
	Feature string  `json:"feature,omitempty"` // which, where it is one; "intercept" is what is expected at the middle of all
	Group   string  `json:"group,omitempty"`   // of a cell: its hours and days, where the learner divides the clock
	Adds    float64 `json:"adds"`
}

func reportParts(parts []delay.Contribution) (r []AddReport) {
	for _, p := range parts {
		r = append(r, AddReport{p.Cause.String(), p.Feature, p.Group, p.Adds})
	}
	return r
}
