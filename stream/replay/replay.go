// Package replay computes logged rankings again, and compares them byte by byte. Run takes a Config with a Log for each partition, and
// returns Results. It begins with the topics or with a Base, a saved state. Package internal/audit implements Log and calls Run. The
// package is pure.
//
// An owner is a worker that held the partition for a time. The headers of its rankings name the order in which it read records (Steps), and
// its other inputs (Seen). A partition.Machine repeats each owner's work: loading, steps, reading other partitions' statistics, expiry and
// seals. Decisions that an owner found in the log, and took over, are taken over again. If data are missing or settings differ, a ranking
// is not exact, with the reason. Behind a store that went back, rankings are not exact until the next Base. Topics that cannot be read are
// an error.
package replay

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Ranking is a record of the rankings topic by an owner of the partition: a ranking or an order record.
type Ranking struct {
	Offset      int64
	Order       int64 // number of the order record (partition.OrderNumber); 0: a ranking
	Key, Value  []byte
	Steps, Seen []byte // headers; nil: none
}

// Log reads one partition's topics. Results must not change.
type Log interface {
	// Record returns the first record of an input topic at or behind an offset, or nil.
	Record(t event.Topic, offset int64) (*partition.Record, error)
	// Ranking returns the group's next ranking or order record, or nil.
	Ranking() (*Ranking, error)
	// Base returns the partition's next base, by time, whose Rankings are behind an offset; or nil.
	Base(behind int64) (*Base, error)
}

type Config struct {
	// Machine returns the configuration of a partition's machine. Names and Pooled are the replay's own.
	Machine func(partition int32) partition.Config
	Logs    []Log // by partition
	// AtOnce is the number of a source's fields that owners read at a time; 0: partition.PublishedAtOnce.
	AtOnce int
	// Made, if not nil, is called with each ranking, in its partition's order, until it returns true.
	Made func(Made) (enough bool)
	// Before, if not nil, is called before an impression is ranked.
	Before func(*Moment)
	// Sent, if not nil, is called with the changes of each checkpoint, and with whether those of a hash are reproduced.
	Sent func(partition int32, writer uint32, seq int64, changes []*state.Changes, reproduced func(hash string) bool)
}

type Moment struct {
	Partition  int32
	Machine    *partition.Machine
	Ranking    *Ranking
	Impression *partition.Record
	Sources    []partition.SourceAt // positions read, by partition
}

// Made is a ranking made again.
type Made struct {
	Partition  int32
	Ranking    *Ranking
	ID         string
	Impression int64 // its offset
	Time       event.Millis
	Same       bool
	NotExact   string // why it cannot be expected to be the same; "" where it can
	Again      []byte // the result, if different
}

// Result is the result of one partition.
type Result struct {
	Rankings  int64              `json:"rankings"`
	Same      int64              `json:"identical"`
	Different int64              `json:"different"`
	NotExact  map[string]Inexact `json:"not_exact"` // by reason
	First     *Made              `json:"-"`         // the first that is different
}

// Plus adds up two results.
func (r Result) Plus(other Result) Result {
	sum := Result{r.Rankings + other.Rankings, r.Same + other.Same, r.Different + other.Different, map[string]Inexact{}, cmp.Or(r.First, other.First)}
	for _, of := range []Result{r, other} {
		for why, n := range of.NotExact {
			sum.NotExact[why] = sum.NotExact[why].Plus(n)
		}
	}
	return sum
}

// Inexact counts the rankings that are not exact for one reason.
type Inexact struct {
	Rankings  int64     `json:"rankings"`
	Since     time.Time `json:"since"`     // of the first
	Partition int32     `json:"partition"` // likewise
	Offset    int64     `json:"offset"`    // likewise, in the rankings topic
}

// Plus adds up two counts.
func (n Inexact) Plus(other Inexact) Inexact {
	if n.Rankings > 0 && !other.Since.Before(n.Since) {
		n.Rankings += other.Rankings
		return n
	}
	other.Rankings += n.Rankings
	return other
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
	}
	for p := range cfg.Logs {
		part, err := newPart(r, int32(p))
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		r.parts = append(r.parts, part)
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

type run struct {
	cfg       *Config
	names     partition.Names
	parts     []*replayed
	published []*published
	news      bool // something was published since all waited
	enough    bool
}

// progress is returned by a partition that pauses.
type progress struct {
	waits bool // for another partition's checkpoint
}

// round resumes the partition that is the earliest in time and can continue; it is false at the end. If all wait for each other, which
// happens only if observations are missing, the earliest continues without the checkpoint.
func (r *run) round() bool {
	if r.enough {
		return false
	}
	alive := slices.DeleteFunc(slices.Clone(r.parts), func(p *replayed) bool { return p.done })
	slices.SortStableFunc(alive, func(a, b *replayed) int { return cmp.Compare(a.time, b.time) })
	for _, p := range alive {
		state, more := p.resume()
		if !more {
			p.done, r.published[p.number].over = true, cmp.Or(p.lost, logEnds)
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

func (r *Result) Reasons() []string { return slices.Sorted(maps.Keys(r.NotExact)) }
