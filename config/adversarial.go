package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

type LossIndex string

const (
	ByItem LossIndex = "item" // to items
	ByRank LossIndex = "rank" // to utility ranks, for each list length separately (the paper's form for changing utilities)
)

// Eta is the learning rate of an adversarial policy.
type Eta struct {
	Auto bool // 1 for ftrl; for osmd the horizon is doubled
	// Value is c of η_t = c/√t for ftrl, η itself for osmd; meaningless with Auto.
	Value float64
}

func (e Eta) String() string {
	if e.Auto {
		return "auto"
	}
	return formatFloat(e.Value)
}

// Windows is the distribution of attention windows. At most one of List, Geometric and Zipf is given; without them it is learned from
// selections.
type Windows struct {
	List      []float64 // probability of window 1, 2, …
	Geometric *float64  // P(w) ∝ ratio^w
	Zipf      *float64  // P(w) ∝ w^−s
	Max       int       // longest window with a probability of its own; len(List) with List
}

func (w Windows) Learned() bool { return w.List == nil && w.Geometric == nil && w.Zipf == nil }

// Distribution returns the distribution; nil if it is learned. It fails on invalid weights.
func (w Windows) Distribution() (*admissible.Windows, error) {
	switch {
	case w.List != nil:
		return admissible.NewWindows(w.List)
	case w.Geometric != nil:
		return admissible.Geometric(*w.Geometric, w.Max)
	case w.Zipf != nil:
		return admissible.Zipf(*w.Zipf, w.Max)
	}
	return nil, nil
}

// windowForms are the keys for the source of windows.
var windowForms = []string{"list", "geometric", "zipf", "learned"}

// readWindows reads {geometric: 0.7}, {list: [0.5, 0.3, 0.2]}, {zipf: 1.2} or {learned: true}, and max.
func readWindows(s *section, key string, dst *Windows) {
	f, ok := s.ask(key)
	if !ok {
		return
	}
	if f.value.Kind == yaml.ScalarNode {
		s.fault(key, "write windows: {geometric: 0.7}, {zipf: 1.2}, {list: [0.5, 0.3, 0.2]} or {learned: true}")
		return
	}
	one, w, learned := s.d.open(s.join(key), f.at, f.value), Windows{Max: dst.Max}, false
	readAll(one, windowsSettings, &w)
	set(one, "learned", &learned, parseBool)
	most := policy.MaxWindows
	if one.has("list") || one.has("geometric") || one.has("zipf") {
		most = admissible.MaxWindow
	}
	wholeNumber(1, most).read(one, "max", &w.Max)
	one.close()
	one.checkForms(learned)
	if one.has("list") {
		if one.has("max") {
			one.fault("max", "a list says itself how long the longest window is")
		}
		w.Max = len(w.List)
	}
	if !one.ok(append(windowForms, "max")...) || s.d.bad[one.path] {
		return
	}
	if _, err := w.Distribution(); err != nil {
		s.fault(key, "%v", err)
		return
	}
	*dst = w
}

// checkForms requires one form.
func (s *section) checkForms(learned bool) {
	var forms []string
	for _, key := range windowForms {
		if s.has(key) && (key != "learned" || learned) {
			forms = append(forms, key)
		}
	}
	if len(forms) > 1 {
		s.fault(forms[1], "%s is given already; windows have one of %s", forms[0], strings.Join(windowForms, ", "))
	}
	if len(forms) == 0 && s.has("learned") && s.ok("learned") {
		s.fault("learned", "is false, and nothing else is given; windows have one of %s", strings.Join(windowForms, ", "))
	}
}

const leastEta, mostEta = 1e-6, 1e6

func parseEta(text string) (Eta, error) {
	if text == "auto" {
		return Eta{Auto: true}, nil
	}
	x, err := parseFloat(text)
	if err == nil && !(x >= leastEta && x <= mostEta) {
		err = fmt.Errorf("%s is outside %s to %s", text, formatFloat(leastEta), formatFloat(mostEta))
	}
	if err != nil {
		return Eta{}, fmt.Errorf("%w; or write auto", err)
	}
	return Eta{Value: x}, nil
}

func parseDelta(text string) (Delta, error) {
	if text == "auto" {
		return Delta{Auto: true}, nil
	}
	x, err := parseFloat(text)
	if err != nil || x <= 0 || x >= 1 {
		return Delta{}, fmt.Errorf("%s is neither auto nor a number between 0 and 1", quote(text))
	}
	return Delta{Value: x}, nil
}
