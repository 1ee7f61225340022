package event

import (
	"bytes"
	"slices"
)

// exclusions reads a list of excluded items.
func exclusions(d *Decoder, _ *Impression, list value) *Fault {
	return list.elements("exclude", func(i int, e value) *Fault {
		item, f := e.text("item")
		if f != nil {
			f.Pointer = ""
			return within(f, "exclude", i)
		}
		d.excluded = append(d.excluded, item)
		return nil
	})
}

func protoExclusion(d *Decoder, _ *Impression, part protoField) *Fault {
	item, f := part.text()
	d.excluded = append(d.excluded, item)
	return f
}

// admit drops excluded candidates, so that all readers of an impression agree on those to be ranked. It refuses several pins of one place.
// Excluded items that are no candidates have no effect.
func (d *Decoder) admit(dst *Impression) *Fault {
	if len(d.excluded) > 0 {
		d.drop(dst)
	}
	if len(dst.Candidates) == 0 {
		return faultf(NoCandidates, "all candidates are excluded").at("exclude")
	}
	d.pins = d.pins[:0]
	for i := range dst.Candidates {
		if p := dst.Candidates[i].Pin; p != 0 {
			d.pins = append(d.pins, p)
		}
	}
	slices.Sort(d.pins)
	for k := 1; k < len(d.pins); k++ {
		if p := d.pins[k]; p == d.pins[k-1] {
			return faultf(DuplicatePin, "several candidates have pin %d", p).at("candidates")
		}
	}
	return nil
}

func (d *Decoder) drop(dst *Impression) {
	slices.SortFunc(d.excluded, bytes.Compare)
	all, contexts, filled := dst.Candidates, dst.Context.Candidates, dst.Filled
	dst.Candidates, dst.Context.Candidates, dst.Filled = all[:0], contexts[:0], filled[:0]
	for i := range all {
		plain := len(filled) > 0 && filled[0] == int32(i)
		if plain {
			filled = filled[1:]
		}
		if _, found := slices.BinarySearchFunc(d.excluded, all[i].Item, bytes.Compare); found {
			continue
		}
		if plain {
			dst.Filled = append(dst.Filled, int32(len(dst.Candidates)))
		}
		dst.Candidates = append(dst.Candidates, all[i])
		if len(contexts) > 0 {
			dst.Context.Candidates = append(dst.Context.Candidates, contexts[i])
		}
	}
}
