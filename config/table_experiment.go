package config

import (
	"time"

	"go.yaml.in/yaml/v4"
)

// experimentSettings are the keys of each experiment, as learnerSettings are those of each learner.
var experimentSettings = []setting[Experiment]{
	value("arms", func(x *Experiment) *[]Arm { return &x.Arms }, sharesKind, nil,
		"learners that decide, and the share of units that each is given").orElse(noArms),
	value("control", func(x *Experiment) *string { return &x.Control }, anything("learner", "one of `arms`", isFilled, filled...), "",
		"the arm that the others are compared with; it ranks what belongs to no unit, too").orElse("is needed: the arm that others are compared with"),
	value("by", func(x *Experiment) *Unit { return &x.By }, words(ByImpression, ByUser), ByImpression,
		"what an arm is given to: each impression, or a group of users for a `period`. By user impressions carry `user`"),
	value("period", func(x *Experiment) *time.Duration { return &x.Period }, durationOr("never", Never, time.Hour, longest), 7*day,
		"by user: after how long groups are given arms anew; `never` is a holdout, whose lift has no bounds").unless(func(x *Experiment) bool {
		return x.By != ByUser
	}),
	value("run", func(x *Experiment) *int { return &x.Run }, wholeNumber(1, 1_000_000_000), 1,
		"raise it with every change of the experiment: units are given arms anew, counts begin at zero, and what a guard has done is over"),
	value("unpaid", func(x *Experiment) **float64 { return &x.Unpaid }, maybe("within the arms' `payoff_range`", schema{}), nil,
		"what a selection that was never paid is worth in the comparison, where the arms have `on_expiry: drop`"),
	sectionOf("guard", func(x *Experiment) *Guard { return &x.Guard }, []setting[Guard]{
		value("margin", func(g *Guard) *float64 { return &g.Margin }, numberIn(0, 1), 0.02,
			"in payoff ranges: an arm whose lift is below minus this for certain is taken out of service").unless(func(g *Guard) bool { return g.To == "" }),
		value("to", func(g *Guard) *string { return &g.To }, anything("learner", "one of `arms`", isFilled, filled...), "",
			"the arm that ranks in its place then; without it there is no guard").unless(func(g *Guard) bool { return g.To == "" }),
	}, when(schema{"required": []string{"margin"}}, needs("to"))),
}

const noArms = "is needed: two learners or more and their shares, such as {feed: 0.9, control: 0.1}"

// mostArms bounds the arms of an experiment: the bounds of each allow for all others.
const mostArms = 16

// sharesKind is a mapping of learners to shares.
var sharesKind = kind[[]Arm]{name: "mapping of shares", span: "2 to 16 learners, each with a number above 0; they add up to 1",
	editor: schema{"type": "object", "minProperties": 2, "maxProperties": mostArms,
		"additionalProperties": orReference(schema{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, numeric)},
	read: func(s *section, key string, dst *[]Arm) {
		f, ok := s.ask(key)
		if !ok {
			return
		}
		one := s.d.open(s.join(key), f.at, f.value)
		one.known = one.order
		var all []Arm
		for _, name := range one.order {
			a := Arm{Learner: name}
			set(one, name, &a.Share, parseShare)
			s.d.bad[s.join(key)] = s.d.bad[s.join(key)] || !one.ok(name)
			all = append(all, a)
		}
		*dst = all
	},
	print: func(all []Arm) *yaml.Node {
		if all == nil {
			return nil
		}
		var m mapping
		for _, a := range all {
			m.add(a.Learner, plain(formatFloat(a.Share)))
		}
		return m.node(true)
	}}

func (x *Experiment) print() *yaml.Node { return printAll(experimentSettings, x).node(false) }
