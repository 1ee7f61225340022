package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// LossIndex names what the losses of an adversarial learner belong to.
type LossIndex string

// The values of loss_index.
const (
	ByItem LossIndex = "item" // to items
	ByRank LossIndex = "rank" // to utility ranks, for each list length apart (the paper's form for changing utilities)
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

// Windows is the distribution of how many results users look at. At most one of List, Geometric and Zipf is given;
// where none is, it is learned from selections.
type Windows struct {
	List      []float64 // probability of window 1, 2, …
	Geometric *float64  // P(w) ∝ ratio^w
	Zipf      *float64  // P(w) ∝ w^−s
	Max       int       // the longest window told apart; of List, its length
}

// Learned tells whether the windows are learned from selections.
func (w Windows) Learned() bool { return w.List == nil && w.Geometric == nil && w.Zipf == nil }

// Distribution makes the distribution; nil where it is learned. It fails on what cannot be one.
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

// windowForms are the keys of windows that say where it comes from.
var windowForms = []string{"list", "geometric", "zipf", "learned"}

// windows reads windows: {geometric: 0.7}, {list: [0.5, 0.3, 0.2]}, {zipf: 1.2} or {learned: true}, and max.
func (s *section) windows(dst *Windows) {
	f, ok := s.ask("windows")
	if !ok {
		return
	}
	if f.value.Kind == yaml.ScalarNode {
		s.fault("windows", "write windows: {geometric: 0.7}, {zipf: 1.2}, {list: [0.5, 0.3, 0.2]} or {learned: true}")
		return
	}
	one := s.d.open(s.join("windows"), f.at, f.value)
	w := Windows{Max: dst.Max}
	learned := false
	one.bool("learned", &learned)
	most := admissible.MaxWindow
	if one.has("geometric") {
		w.Geometric = new(float64)
		set(one, "geometric", w.Geometric, parseFloat)
	}
	if one.has("zipf") {
		w.Zipf = new(float64)
		set(one, "zipf", w.Zipf, parseFloat)
	}
	one.ask("geometric")
	one.ask("zipf")
	one.windowList(&w)
	if w.Learned() {
		most = policy.MaxWindows
	}
	one.int("max", &w.Max, 1, most)
	one.close()
	one.checkForms(learned)
	if w.List != nil {
		if one.has("max") {
			one.fault("max", "a list says itself how long the longest window is")
		}
		w.Max = len(w.List)
	}
	if !one.ok(append(windowForms, "max")...) || s.d.bad[one.path] {
		return
	}
	if _, err := w.Distribution(); err != nil {
		s.fault("windows", "%v", err)
		return
	}
	*dst = w
}

// checkForms wants one form.
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

func (s *section) windowList(w *Windows) {
	items, ok := s.items("list")
	if !ok {
		return
	}
	w.List = make([]float64, 0, len(items))
	for i, item := range items {
		x, err := parseFloat(item.text)
		if err != nil {
			s.d.fault(s.join("list["+strconv.Itoa(i)+"]"), item.at, "%v", err)
			s.d.bad[s.join("list")] = true
			continue
		}
		w.List = append(w.List, x)
	}
}

func parseEta(text string) (Eta, error) {
	if text == "auto" {
		return Eta{Auto: true}, nil
	}
	x, err := parseFloat(text)
	if err == nil && !(x >= 1e-6 && x <= 1e6) {
		err = fmt.Errorf("%s is outside 1e-06 to 1e+06", text)
	}
	if err != nil {
		return Eta{}, fmt.Errorf("%w; or write auto", err)
	}
	return Eta{Value: x}, nil
}

func (w Windows) print() *yaml.Node {
	var m mapping
	switch {
	case w.List != nil:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
		for _, x := range w.List {
			n.Content = append(n.Content, plain(formatFloat(x)))
		}
		m.add("list", n)
		return m.node(true)
	case w.Geometric != nil:
		m.add("geometric", plain(formatFloat(*w.Geometric)))
	case w.Zipf != nil:
		m.add("zipf", plain(formatFloat(*w.Zipf)))
	default:
		m.add("learned", boolean(true))
	}
	m.add("max", integer(w.Max))
	return m.node(true)
}
