package checker

import "github.com/ranker-worker/ranker-worker/config"

// openParts are an item's selections in flight with partial payoffs: number, normalised sum, and squares, both in units of 1/partUnits.
type openParts struct{ n, sum, squares int64 }

// checkOpen compares an item's partial payoffs with the sums of pending impressions whose entries say that
// they were fed. Entries of a learner whose selections in flight have always been weighed all say so.
func (lf *learnerFold) checkOpen(f *fold) {
	if !f.state.complete {
		return
	}
	want := map[int64]openParts{}
	for _, e := range lf.pending.selected {
		if e.count == 0 {
			continue
		}
		if lf.silence != nil {
			f.out.must(silenceOpen, e.inParts, say("%x", e.id), say("the learner was fed its %d payoffs", e.count), "not")
		}
		if e.inParts {
			paid := normalise(lf.variants[0], e.sum)
			o := want[e.item()]
			want[e.item()] = openParts{o.n + 1, o.sum + inParts(paid), o.squares + inParts(paid*paid)}
		}
	}
	compareEach(lf, f, silenceOpen, want, lf.stored.open, lf.stored.name)
}

// addsUp reports whether partial payoffs are fed to the learner.
func (lf *learnerFold) addsUp() bool {
	return lf.delay == delayDirect && lf.variants[0].Aggregate == config.Sum
}
