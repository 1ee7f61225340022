package checker

import (
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Of selections and payoffs; isTaken means joined or applied.
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

// outcomeNames are the account's names, by the bits of fate.
var outcomeNames = [event.Inputs][]string{
	{"paid", "expired", "defaulted", "unselected", "duplicate", "rejected", "pending"},
	{"joined", "duplicate", "late", "orphan", "rejected", "parked"},
	{"applied", "duplicate", "late", "orphan", "rejected", "parked"},
}

// String names the ends of an impression.
func (f fate) String() string {
	var names []string
	for bit, name := range outcomeNames[event.Impressions] {
		if f&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// count adds a record's fate to the bounds of the account.
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

// concludeRefused counts a refused record, which must have a dead letter.
func (f *fold) concludeRefused(r *record) {
	if r.topic == event.Impressions {
		f.count(r.topic, wasRejected)
	} else {
		f.count(r.topic, isRejected)
	}
	f.out.must(deadLetters, f.buried(r) || f.partial, say("%s at offset %d", roles[r.topic], r.offset), "a dead letter", "none")
}

// buried reports whether a record has a dead letter.
func (f *fold) buried(r *record) bool {
	_, there := slices.BinarySearch(f.letters[r.topic], r.offset)
	return there
}

// checkAccount compares the stored account with the records read, and its sums.
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

// learnersCounts are the counts of which every one belongs to some learner.
var learnersCounts = []string{"impressions.paid", "impressions.expired", "impressions.defaulted", "impressions.unselected",
	"impressions.pending", "selections.joined", "payoffs.applied", "payoffs.warmed"}

// checkWarmed checks that the account has the payoffs of warm starts, and no others without a record.
func (f *fold) checkWarmed() {
	if !f.partial {
		equal(f.out, accountOutcomes, "payoffs.warmed", f.warmed, f.state.account["payoffs.warmed"])
	}
}

// checkShares checks that the learners' accounts add up to the partition's, in those counts.
func (f *fold) checkShares() {
	for _, name := range learnersCounts {
		equal(f.out, accountLearners, name+": sum of the learners'", f.state.account[name], f.state.shares[name])
	}
}

func (f *fold) checkCount(name string, b bound) {
	stored := f.state.account[name]
	f.out.must(accountOutcomes, stored >= b.lo && stored <= b.hi, name, b, stored)
}
