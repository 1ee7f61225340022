package checker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// fate is a set of what may have become of a record: several where it depends on the interleaving of the topics.
type fate uint8

// Of selections and payoffs; isTaken is joined or applied.
const (
	isTaken fate = 1 << iota
	isDuplicate
	isLate
	isOrphan
	isRejected
	isParked
)

// Of impressions.
const (
	wasPaid fate = 1 << iota
	wasExpired
	wasDefaulted
	wasUnselected
	wasDuplicate
	wasRejected
	isPending
)

// outcomes is the most outcomes that records of one topic have.
const outcomes = 7

// outcomeNames are the account's, by the bits of fate.
var outcomeNames = [event.Inputs][]string{
	{"paid", "expired", "defaulted", "unselected", "duplicate", "rejected", "pending"},
	{"joined", "duplicate", "late", "orphan", "rejected", "parked"},
	{"applied", "duplicate", "late", "orphan", "rejected", "parked"},
}

// impressionFate is the fate of an impression that was not ranked.
func impressionFate(f fate) fate {
	var i fate
	if f&isDuplicate != 0 {
		i |= wasDuplicate
	}
	if f&isRejected != 0 {
		i |= wasRejected
	}
	return i
}

// named gives the names of outcomes of a topic's records.
func (f fate) named(t event.Topic) string {
	var names []string
	for bit, name := range outcomeNames[t] {
		if f&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// bound is within what a count of the account must lie.
type bound struct{ lo, hi int64 }

// count takes a record's fate into the bounds of the account.
func (f *fold) count(t event.Topic, may fate) {
	b := &f.bounds[t]
	for bit := range outcomeNames[t] {
		if may&(1<<bit) == 0 {
			continue
		}
		b[bit].hi++
		if may == 1<<bit {
			b[bit].lo++
		}
	}
	if may&(may-1) != 0 {
		f.out.open(accountOutcomes)
	}
}

// concludeRefused counts a record that was refused, for which there must be a dead letter.
func (f *fold) concludeRefused(r *record) {
	if r.topic == event.Impressions {
		f.count(r.topic, wasRejected)
	} else {
		f.count(r.topic, isRejected)
	}
	if !f.out.ok(deadLetters, f.buried(r) || f.partial) {
		f.out.breach(deadLetters, fmt.Sprintf("%s at offset %d", roles[r.topic], r.offset), "a dead letter", "none")
	}
}

// buried tells whether a record has a dead letter.
func (f *fold) buried(r *record) bool {
	_, there := slices.BinarySearch(f.letters[r.topic], r.offset)
	return there
}

// checkAccount holds the stored account against the records read, and against itself.
func (f *fold) checkAccount() {
	for t := range f.topics {
		if !f.topics[t].on {
			continue
		}
		read := f.state.account[roles[t]+".read"]
		var sum int64
		for _, name := range outcomeNames[t] {
			sum += f.state.account[roles[t]+"."+name]
		}
		equal(f.out, accountSum, roles[t]+": sum of the outcomes", read, sum)
		if f.partial {
			continue
		}
		equal(f.out, accountRead, roles[t]+": records read", f.read[t], read)
		for bit, name := range outcomeNames[t] {
			f.checkCount(roles[t]+"."+name, f.bounds[t][bit])
		}
		if t != int(event.Impressions) && f.unordered == 0 {
			equal(f.out, accountOutcomes, roles[t]+".crowded", f.crowded[t], f.state.account[roles[t]+".crowded"])
		}
	}
}

// learnersCounts are those that are some learner's, all of them.
var learnersCounts = []string{"impressions.paid", "impressions.expired", "impressions.defaulted", "impressions.unselected",
	"impressions.pending", "selections.joined", "payoffs.applied"}

// checkShares: the learners' accounts add up to the partition's, in all that is known to be some learner's.
func (f *fold) checkShares() {
	for _, name := range learnersCounts {
		equal(f.out, accountLearners, name+": sum of the learners'", f.state.account[name], f.state.shares[name])
	}
}

func (f *fold) checkCount(name string, b bound) {
	stored := f.state.account[name]
	if f.out.ok(accountOutcomes, stored >= b.lo && stored <= b.hi) {
		return
	}
	expected := fmt.Sprint(b.lo)
	if b.hi > b.lo {
		expected = fmt.Sprintf("%d to %d", b.lo, b.hi)
	}
	f.out.breach(accountOutcomes, name, expected, fmt.Sprint(stored))
}
