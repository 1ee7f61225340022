package partition

import (
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Account counts records by outcome since the state began. Each record has one outcome: Unaccounted is 0.
type Account struct {
	Read           [event.Inputs]int64
	Impressions    ImpressionAccount
	Selections     SelectionAccount
	Payoffs        PayoffAccount
	Crowded        [event.Inputs]int64 // orphans because parking had no room, by topic
	PayoffsClamped int64               // payoffs, or their sums, outside the payoff range when they were fed
	Adopted        int64               // impressions whose decision was read from the log
	Misplaced      [event.Inputs]int64 // records whose key the default partitioner puts elsewhere
	ParkedBytes    int64               // of the records parked at present
	Warmed         int64               // payoffs of a warm start, weighed down: no records
}

// ImpressionAccount counts impressions by outcome. Pending ones have not ended.
type ImpressionAccount struct {
	Paid, Expired, Defaulted, Unselected, Duplicate, Rejected, Pending int64
}

// SelectionAccount counts selections by how they ended; Parked is how many still wait for their impression.
type SelectionAccount struct {
	Joined, Duplicate, Late, Orphan, Rejected, Parked int64
}

// PayoffAccount counts payoffs by outcome. Parked ones wait for their impression or selection.
type PayoffAccount struct {
	Applied, Duplicate, Late, Orphan, Rejected, Parked int64
}

// Unaccounted returns the number of records read that have no outcome, by topic: always 0.
func (a *Account) Unaccounted() [event.Inputs]int64 {
	i, s, p := &a.Impressions, &a.Selections, &a.Payoffs
	left := a.Read
	left[event.Impressions] -= i.Paid + i.Expired + i.Defaulted + i.Unselected + i.Duplicate + i.Rejected + i.Pending
	left[event.Selections] -= s.Joined + s.Duplicate + s.Late + s.Orphan + s.Rejected + s.Parked
	left[event.Payoffs] -= p.Applied + p.Duplicate + p.Late + p.Orphan + p.Rejected + p.Parked
	return left
}

// Named returns all counts by their names in the stored state, as in "impressions.paid".
func (a *Account) Named() map[string]int64 {
	all := make(map[string]int64, counts)
	for c, n := range a.each() {
		all[countNames[c]] = *n
	}
	return all
}

func (a Account) Plus(b Account) Account { return a.combine(b, 1) }

func (a Account) Minus(b Account) Account { return a.combine(b, -1) }

func (a Account) combine(b Account, sign int64) Account {
	theirs := b.each()
	for i, v := range a.each() {
		*v += sign * *theirs[i]
	}
	return a
}

func (a *Account) each() [counts]*int64 {
	i, s, p := &a.Impressions, &a.Selections, &a.Payoffs
	return [counts]*int64{
		impressionsRead: &a.Read[event.Impressions], impressionsPaid: &i.Paid, impressionsExpired: &i.Expired,
		impressionsDefaulted: &i.Defaulted, impressionsUnselected: &i.Unselected, impressionsDuplicate: &i.Duplicate,
		impressionsRejected: &i.Rejected, impressionsPending: &i.Pending,
		selectionsRead: &a.Read[event.Selections], selectionsJoined: &s.Joined, selectionsDuplicate: &s.Duplicate,
		selectionsLate: &s.Late, selectionsOrphan: &s.Orphan, selectionsRejected: &s.Rejected, selectionsParked: &s.Parked,
		payoffsRead: &a.Read[event.Payoffs], payoffsApplied: &p.Applied, payoffsDuplicate: &p.Duplicate,
		payoffsLate: &p.Late, payoffsOrphan: &p.Orphan, payoffsRejected: &p.Rejected, payoffsParked: &p.Parked,
		payoffsClamped: &a.PayoffsClamped, decisionsAdopted: &a.Adopted, parkedBytes: &a.ParkedBytes,
		impressionsMisplaced: &a.Misplaced[event.Impressions], selectionsMisplaced: &a.Misplaced[event.Selections],
		payoffsMisplaced: &a.Misplaced[event.Payoffs], selectionsCrowded: &a.Crowded[event.Selections],
		payoffsCrowded: &a.Crowded[event.Payoffs], payoffsWarmed: &a.Warmed,
	}
}

// count names one number of the account. A topic's counts stand in the topics' order.
type count uint8

const (
	impressionsRead count = iota
	impressionsPaid
	impressionsExpired
	impressionsDefaulted
	impressionsUnselected
	impressionsDuplicate
	impressionsRejected
	impressionsPending
	selectionsRead
	selectionsJoined
	selectionsDuplicate
	selectionsLate
	selectionsOrphan
	selectionsRejected
	selectionsParked
	payoffsRead
	payoffsApplied
	payoffsDuplicate
	payoffsLate
	payoffsOrphan
	payoffsRejected
	payoffsParked
	payoffsClamped
	decisionsAdopted
	impressionsMisplaced
	selectionsMisplaced
	payoffsMisplaced
	parkedBytes
	selectionsCrowded
	payoffsCrowded
	payoffsWarmed
	counts
)

// countNames are the fields' names in the hash "meta", behind the prefix "account.".
var countNames = [counts]string{
	impressionsRead:       "impressions.read",
	impressionsPaid:       "impressions.paid",
	impressionsExpired:    "impressions.expired",
	impressionsDefaulted:  "impressions.defaulted",
	impressionsUnselected: "impressions.unselected",
	impressionsDuplicate:  "impressions.duplicate",
	impressionsRejected:   "impressions.rejected",
	impressionsPending:    "impressions.pending",
	selectionsRead:        "selections.read",
	selectionsJoined:      "selections.joined",
	selectionsDuplicate:   "selections.duplicate",
	selectionsLate:        "selections.late",
	selectionsOrphan:      "selections.orphan",
	selectionsRejected:    "selections.rejected",
	selectionsParked:      "selections.parked",
	payoffsRead:           "payoffs.read",
	payoffsApplied:        "payoffs.applied",
	payoffsDuplicate:      "payoffs.duplicate",
	payoffsLate:           "payoffs.late",
	payoffsOrphan:         "payoffs.orphan",
	payoffsRejected:       "payoffs.rejected",
	payoffsParked:         "payoffs.parked",
	payoffsClamped:        "payoffs.sums_clamped",
	decisionsAdopted:      "impressions.adopted",
	impressionsMisplaced:  "impressions.misplaced",
	selectionsMisplaced:   "selections.misplaced",
	payoffsMisplaced:      "payoffs.misplaced",
	parkedBytes:           "parked_bytes",
	selectionsCrowded:     "selections.crowded",
	payoffsCrowded:        "payoffs.crowded",
	payoffsWarmed:         "payoffs.warmed",
}

func ofTopic(t event.Topic, impressions, selections, payoffs count) count {
	return [event.Inputs]count{impressions, selections, payoffs}[t]
}

const accountPrefix = "account."

// ledger holds the counts, and which of them changed since the last seal.
type ledger struct {
	now    [counts]int64
	sealed [counts]int64
}

func (l *ledger) add(c count, n int64) { l.now[c] += n }

// load sets a stored count by its field's name without the prefix. It fails on unknown names.
func (l *ledger) load(name, value string) error {
	v, err := strconv.ParseInt(value, 10, 64)
	if err != nil || v < 0 {
		return fmt.Errorf("partition: count %q is %q", name, value)
	}
	for c, n := range countNames {
		if n == name {
			l.now[c], l.sealed[c] = v, v
			return nil
		}
	}
	return fmt.Errorf("partition: no count is named %q", name)
}

func (l *ledger) account() (a Account) {
	for c, n := range a.each() {
		*n = l.now[c]
	}
	return a
}
