package task

import "slices"

// Owners are the producer ids that fences of one partition have given, in their order. A ranking counts only if one of them has written
// it: that keeps out records that a tool or a mirror wrote by mistake. It is no protection against malice: any id can be forged.
type Owners []int64

// Wrote tells whether an owner of the partition has written a record: a plain one, by a producer that a fence has given.
func (o Owners) Wrote(by *Origin) bool {
	return !by.Transactional && slices.Contains(o, by.Producer.ID)
}

// Mark adds the id that an abort marker of the rankings stands for. Only fences leave such markers.
func (o *Owners) Mark(m *Marker) {
	if m.Abort && !slices.Contains(*o, m.Producer.ID) {
		*o = append(*o, m.Producer.ID)
	}
}
