package task

import "slices"

// Owners are the producer ids from one partition's fences, in order. Only their rankings count, which excludes
// records written by mistake, by a tool or a mirror. It does not protect against malice: any id can be forged.
type Owners []int64

// Wrote reports whether an owner has written a record: non-transactional, with an owner's producer id.
func (o Owners) Wrote(by *Origin) bool {
	return !by.Transactional && slices.Contains(o, by.Producer.ID)
}

// Mark adds the id of an abort marker in the rankings topic. Only fences leave such markers.
func (o *Owners) Mark(m *Marker) {
	if m.Abort && !slices.Contains(*o, m.Producer.ID) {
		*o = append(*o, m.Producer.ID)
	}
}
