package partition

// knownIDs is the set of ids under which something is stored, kept as 64-bit keyed hashes. It has no false negatives,
// which is what deciding without a look-up rests on; a false positive costs one look-up and has probability about
// n·2⁻⁶⁴. It is exact rather than a cuckoo filter because a cuckoo filter that grows by chaining loses an id when
// another with the same fingerprint is deleted from the wrong link. It takes 25 to 38 bytes per id.
//
// The same holds for two ids of one hash here: a hash that was added more than once is never removed again. That
// leaves a false positive behind, and a false positive is harmless.
type knownIDs struct {
	set      map[uint64]struct{}
	shared   map[uint64]struct{} // added more than once
	complete bool                // every id of the store has been added
}

func newKnownIDs() knownIDs {
	return knownIDs{set: make(map[uint64]struct{}), shared: make(map[uint64]struct{})}
}

func (k *knownIDs) add(hash uint64) {
	before := len(k.set)
	k.set[hash] = struct{}{}
	if len(k.set) == before {
		k.shared[hash] = struct{}{}
	}
}

func (k *knownIDs) remove(hash uint64) {
	if len(k.shared) > 0 {
		if _, ok := k.shared[hash]; ok {
			return
		}
	}
	delete(k.set, hash)
}

// certainlyNew tells that nothing is stored under any id of this hash, the overlay apart.
func (k *knownIDs) certainlyNew(hash uint64) bool {
	if !k.complete {
		return false
	}
	_, ok := k.set[hash]
	return !ok
}
