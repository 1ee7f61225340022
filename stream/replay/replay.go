// Package replay makes the rankings of a log again, from the topics and from what the rankings' headers tell of how they were made, and
// says which of them come out the same, byte by byte.
//
// It does with a machine of each partition what the partition's owners did with theirs: it loads what an owner loaded, out of what the
// machines before it sealed; steps the same records in the same order; takes in other partitions' statistics where the owner did, out of
// what the machines of those partitions publish; ends impressions where the walk came by; and seals where the owner sealed. An owner that
// adopted decisions of an earlier one adopts them again. What is not told, or not there any more, makes rankings not exact, with the
// reason, and never an error.
//
// The package is pure: who calls it reads the topics.
package replay

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Ranking is a record of the rankings topic that an owner of the partition has written: a ranking or an order record.
type Ranking struct {
	Offset      int64
	Order       int64 // number of the order record that it is, see partition.OrderNumber; 0: it is a ranking
	Key, Value  []byte
	Steps, Seen []byte // values of its headers; nil where it has none
}

// Log reads what the topics hold of one partition. What it gives stays as it is.
type Log interface {
	// Record is the first record of an input topic at or behind an offset; nil where there is none.
	Record(t event.Topic, offset int64) (*partition.Record, error)
	// Ranking is the next ranking or order record of the group; nil where there are no more.
	Ranking() (*Ranking, error)
}

// Config is what a replay is made from.
type Config struct {
	// Machine is what the machine of a partition is made from. Names and Pooled are the replay's own.
	Machine func(partition int32) partition.Config
	Logs    []Log // by partition
	// Bases are by partition what its replay begins with, and its log begins no later. Empty: with the beginning of all.
	Bases []*Base
	// AtOnce is how many fields of a source the owners read at a time; 0: partition.PublishedAtOnce.
	AtOnce int
	// Made is told of each ranking, in the order of its partition; that was enough where it is true. Nil: nobody is told.
	Made func(Made) (enough bool)
	// Before is called before an impression is ranked; nil: not.
	Before func(*Moment)
	// Sent is told what a checkpoint would have stored, by whom, where that is known; nil: nobody is.
	Sent func(partition int32, writer uint32, seq int64, changes []*state.Changes)
	// Sabotage leaves out what was seen, for tests that show that it matters; nil: nothing is.
	Sabotage func(*partition.Observation) (leave bool)
}

// Moment is the moment at which an impression is ranked.
type Moment struct {
	Partition  int32
	Machine    *partition.Machine
	Ranking    *Ranking
	Impression *partition.Record
	Sources    []partition.SourceAt // how far partitions were known, by partition
}

// Made is one ranking made again.
type Made struct {
	Partition  int32
	Ranking    *Ranking
	ID         string
	Impression int64 // its offset
	Time       event.Millis
	Same       bool
	NotExact   string // why it cannot be expected to be the same; "" where it can
	Again      []byte // what was made, where it is another
}

// Result is what a replay has found of one partition.
type Result struct {
	Rankings, Same, Different int64
	NotExact                  map[string]int64 // by reason
	LeftOut                   int64            // of those not exact: since an owner, here or of another partition, left out what it saw
	First                     *Made            // the first that is different
}

// Run replays all partitions.
func Run(cfg *Config) ([]Result, error) {
	if cfg.AtOnce == 0 {
		cfg.AtOnce = partition.PublishedAtOnce
	}
	r := &run{cfg: cfg, names: partition.NewNameTable()}
	learners := cfg.Machine(0).Learners
	for p := range cfg.Logs {
		r.published = append(r.published, newPublished(int32(p), learners, r.names))
		r.parts = append(r.parts, newPart(r, int32(p)))
	}
	for p, base := range cfg.Bases {
		r.parts[p].begin(base)
	}
	for _, p := range r.parts {
		var stop func()
		p.resume, stop = iter.Pull(p.all)
		defer stop()
	}
	for r.round() {
	}
	results := make([]Result, len(r.parts))
	for i, p := range r.parts {
		if p.err != nil {
			return nil, fmt.Errorf("partition %d: %w", i, p.err)
		}
		results[i] = p.result
	}
	return results, nil
}

// run is one replay.
type run struct {
	cfg       *Config
	names     partition.Names
	parts     []*replayed
	published []*published
	news      bool // something was published since all waited
	enough    bool
	guesses   bool // some owner's learners were not told all that they had been told of other partitions
	mixed     bool // headers were lost, or something else than a worker changed the stored state
}

// progress is how a partition has come on.
type progress struct {
	waits bool // for what another one is still to publish
}

// round lets the partition go on that is the furthest behind in time and can; it is false at the end. Where all wait for each other,
// which is so only where something was not told, the first does without what it waits for.
func (r *run) round() bool {
	if r.enough {
		return false
	}
	alive := slices.DeleteFunc(slices.Clone(r.parts), func(p *replayed) bool { return p.done })
	slices.SortStableFunc(alive, func(a, b *replayed) int { return cmp.Compare(a.time, b.time) })
	for _, p := range alive {
		state, more := p.resume()
		if !more {
			p.done, r.published[p.number].over = true, true
			return true
		}
		if !state.waits {
			return true
		}
	}
	if len(alive) > 0 && !r.news {
		alive[0].without = true
	}
	r.news = false
	return len(alive) > 0
}

// reasons are those of a result, in their order.
func (r *Result) Reasons() []string { return slices.Sorted(maps.Keys(r.NotExact)) }
