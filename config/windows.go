package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

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

var windowsKind = kind[Windows]{name: "mapping", span: "one of the next four keys, and `max`", read: readWindows,
	print: func(w Windows) *yaml.Node { return printAll(windowsSettings, &w).node(true) }, parts: windowsSettings,
	editor: filled(object(windowsSettings))}

var windowsSettings = []setting[Windows]{
	value("list", func(w *Windows) *[]float64 { return &w.List }, kind[[]float64]{name: "list of numbers", span: "they sum to 1",
		read: func(s *section, key string, dst *[]float64) {
			if x, ok := s.numbers(key, 0, func(i int) string { return key + "[" + strconv.Itoa(i) + "]" }); ok {
				*dst = x
			}
		},
		print: func(x []float64) *yaml.Node {
			if x == nil {
				return nil
			}
			return printNumbers(x)
		},
		editor: orReference(schema{"type": "array", "minItems": 1, "items": orReference(schema{"type": "number", "minimum": 0}, numeric)},
			schema{"type": []string{"string", "number"}}),
	}, nil, "the probability of window 1, 2, …"),
	value("geometric", func(w *Windows) **float64 { return &w.Geometric },
		maybe("above 0, at most 1", schema{"exclusiveMinimum": 0, "maximum": 1}), nil, "P(w) in proportion to this to the power w"),
	value("zipf", func(w *Windows) **float64 { return &w.Zipf }, maybe("from 0", schema{"minimum": 0}), nil,
		"P(w) in proportion to w to the power −s"),
	{key: "learned", kind: yesOrNo.name, span: "true", editor: yesOrNo.editor, about: "estimated from selections",
		start: func(*Windows) {}, print: func(w *Windows) *yaml.Node {
			if !w.Learned() {
				return nil
			}
			return boolean(true)
		}},
	value("max", func(w *Windows) *int { return &w.Max }, wholeNumber(1, admissible.MaxWindow), 100,
		"the longest window with a probability of its own; not with `list`").within(Grouped(1) + " to " + Grouped(admissible.MaxWindow) + "; learned, to " +
		Grouped(policy.MaxWindows)).unless(func(w *Windows) bool { return w.List != nil }).unread(),
}
