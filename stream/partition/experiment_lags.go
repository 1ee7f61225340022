package partition

import (
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// lagSums are an experiment's payoffs by age; by user those of each block of groups. Each partition publishes its ended buckets; the deciding
// one adds them up.
type lagSums struct {
	runOffs    experiment.RunOffs
	theirs     map[lagsOf]string    // texts in othersLags, in the deciding partition
	othersLags experiment.LagTotals // of all other partitions; nil before one is read
	// Changes since the last seal.
	changedLags    map[int]bool // by block
	changedBuckets map[openLags]bool
}

// lagsOf names the ended buckets of a block of groups in another partition.
type lagsOf struct {
	source int32
	block  int
}

// openLags names an open bucket of a block.
type openLags struct {
	bucket int64
	block  int
}

func newLagSums(x *experiment.Experiment, horizon event.Millis) lagSums {
	return lagSums{runOffs: x.NewRunOffs(horizon), theirs: make(map[lagsOf]string),
		changedLags: make(map[int]bool), changedBuckets: make(map[openLags]bool)}
}

// note marks a block's bucket as changed, or its ended ones.
func (s *lagSums) note(block int, bucket int64, open bool) {
	if open {
		s.changedBuckets[openLags{bucket, block}] = true
	} else {
		s.changedLags[block] = true
	}
}

// endBuckets ends the buckets that the walk has passed.
func (s *lagSums) endBuckets(walked event.Millis) {
	for block, r := range s.runOffs {
		ended, any := r.EndUpTo(walked)
		for _, b := range ended {
			s.changedBuckets[openLags{b, block}] = true
		}
		if any {
			s.changedLags[block] = true
		}
	}
}
