package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Bounds of caps: of a learner, and of places.
const (
	maxCaps     = 16
	maxCapFirst = 100
)

var capSettings = []setting[Cap]{
	value("category", func(c *Cap) *string { return &c.Category }, unlessZero(anything("name", "", isCategory)), "", ""),
	value("most", func(c *Cap) *int { return &c.Most }, wholeNumber(0, maxCapFirst-1), 0, "").orElse("is needed"),
	value("first", func(c *Cap) *int { return &c.First }, wholeNumber(1, maxCapFirst), 1, "").orElse("is needed"),
}

func isCategory(s string) error {
	if len(s) > event.MaxIDBytes {
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(s), event.MaxIDBytes)
	}
	return nil
}

var capsKind = noneUnset(listOf("list of caps", fmt.Sprintf("up to %d, such as {category: ads, most: 1, first: 5}", maxCaps),
	func(s *section, path string, n *yaml.Node, before []Cap) Cap {
		c := standardOf(capSettings)
		if n.Kind != yaml.MappingNode {
			s.d.fault(s.join(path), at(n), "must be a mapping, such as {category: ads, most: 1, first: 5}")
			return c
		}
		one := s.d.open(s.join(path), at(n), n)
		readAll(one, capSettings, &c)
		one.close()
		switch {
		case !one.has("most") || !one.has("first") || !one.ok("most", "first"):
		case c.Most >= c.First:
			one.fault("most", "%d is no bound for the first %d places: it must be less", c.Most, c.First)
		case len(before) == maxCaps:
			s.d.fault(s.join(path), at(n), "there can be %d caps", maxCaps)
		}
		return c
	},
	func(c Cap) *yaml.Node { return printAll(capSettings, &c).node(true) }, object(capSettings)))

// checkCaps refuses caps for learners that would learn nothing.
func checkCaps(s *section, l *Learner) {
	if len(l.Caps) > 0 && l.Delay == BOLD && s.ok("delay", "policy") {
		s.fault("caps", "bold learns from propensities of its own rankings, which a ranking changed by a rule does not have; "+
			"caps go with delay: direct and qpmd")
	}
}
