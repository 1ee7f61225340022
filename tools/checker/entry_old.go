package checker

// Flags of a stored entry of versions 1 and 2.
const (
	oldSelectionDeadline = 1 << iota
	oldPropensities
	oldInstance
	oldRanks
	oldSelected
	oldSum
	oldParked
	oldUndecided
	oldWeakEvents // and above: each has a part
	oldInParts
	oldExpected
	oldForeign
)

// old reads an entry of version 1 or 2:
//
//	its kind: a byte; then, as uvarints unless said otherwise: flags, the bucket;
//	unless it is waiting: the learner's number, the impression's offset, the payoff deadline (varint), how much later it
//	is forgotten (varint), how much earlier it began (varint), with flag 1 how much earlier the selection deadline is (varint);
//	of a closed one a byte: its outcome, 1 of a payoff; flag 16 says that there was a selection, 32 that payoffs were added up;
//	of a pending one: the items in the order shown, with their number before; with flag 2 a float64 of each; with flag 4
//	the instance; with flag 8 a utility rank of each; with flag 128 the ranks that are not certain, with their number
//	before; with flag 16 the position selected; with flag 32 the sum so far, as in version 3;
//	with flag 64 the parked records, as in version 3;
//	with flag 512, which says that the learner was told of the sum, an empty part with its length before; with flag 1024 one that is
//	what was expected of each item shown, or of the one selected alone, in units of 10⁻⁶ (varints).
//
// Version 1 has one byte of flags, and does not say when the impression began.
func (c *cursor) old(e *entry, version byte) (foreign uint64) {
	e.old, e.kind = version == 1, kind(c.byte())
	var flags uint64
	if e.old {
		flags = uint64(c.byte())
	} else {
		flags = c.uvarint()
	}
	c.uvarint() // a number that means nothing any more
	if e.kind == pending || e.kind == closed {
		c.oldImpression(e, flags)
	}
	if flags&oldParked != 0 {
		c.parked(e)
	}
	if e.inParts = flags&oldInParts != 0; e.inParts {
		c.take(c.length())
	}
	if flags&oldExpected != 0 {
		part := cursor{b: c.take(c.length())}
		for len(part.b) > 0 {
			e.expected = append(e.expected, part.varint())
		}
		if c.err == nil {
			c.err = part.err
		}
		if e.selected >= 0 && len(e.expected) > 1 && int(e.selected) < len(e.expected) {
			e.expected = e.expected[e.selected:][:1]
		}
	}
	return flags &^ (oldForeign - 1)
}

func (c *cursor) oldImpression(e *entry, flags uint64) {
	e.learner = int32(c.uvarint())
	offset := int64(c.uvarint())
	deadline := c.varint()
	forgetAt := deadline + c.varint()
	if !e.old {
		e.began = deadline - c.varint()
	}
	if e.kind == closed {
		e.forgetAt, e.wasSelected, e.paidOnce = forgetAt, flags&oldSelected != 0, c.byte() == 1 && flags&oldSum == 0
		return
	}
	e.offset, e.payDeadline = offset, deadline
	if flags&oldSelectionDeadline != 0 {
		e.hasSelection = true
		e.selDeadline = deadline - c.varint()
	}
	n := c.length()
	for range n {
		e.items = append(e.items, int32(c.uvarint()))
	}
	if flags&oldPropensities != 0 {
		for range n {
			e.propensities = append(e.propensities, c.float())
		}
	}
	if flags&oldInstance != 0 {
		e.instance = int32(c.uvarint())
	}
	if flags&oldRanks != 0 {
		for range n {
			e.ranks = append(e.ranks, int32(c.uvarint()))
		}
	}
	if flags&oldUndecided != 0 {
		for k := c.length(); k > 0 && c.err == nil; k-- {
			e.undecided = append(e.undecided, int32(c.uvarint()))
		}
	}
	if flags&oldSelected != 0 {
		e.selected = int32(c.uvarint())
		if len(e.propensities) > int(e.selected) {
			e.propensities = e.propensities[e.selected:][:1]
		}
	}
	if flags&oldSum != 0 {
		c.payoffs(e)
	}
}
