package policy

import "slices"

// Specs lists all policies in the order of display.
var Specs = []*Spec{&mossSpec, &optimisticSpec, &thompsonSpec, &klucbSpec, &eliminationSpec, &epsilonGreedySpec, &greedySpec, &utilitySpec, &ftrlSpec, &osmdSpec, &robustSpec}

// SpecOf returns the policy of a name, or nil.
func SpecOf(name string) *Spec {
	if i := slices.IndexFunc(Specs, func(k *Spec) bool { return k.Name == name }); i >= 0 {
		return Specs[i]
	}
	return nil
}
