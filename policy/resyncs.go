package policy

// Resyncs are the keys read so far, by source under resync.
type Resyncs[K comparable] map[int32]map[K]bool

func (r Resyncs[K]) Begin(source int32) { r[source] = map[K]bool{} }

// Note notes that a source's key was read, if the source is under resync.
func (r Resyncs[K]) Note(source int32, key K) {
	if r[source] != nil {
		r[source][key] = true
	}
}

// End ends a resync, and returns the keys read.
func (r Resyncs[K]) End(source int32) map[K]bool {
	read := r[source]
	delete(r, source)
	return read
}
