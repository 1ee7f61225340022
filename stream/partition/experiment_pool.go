package partition

import (
	"maps"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// pool holds the published fields of partitions' experiments, in stored form.
type pool struct {
	version uint64 // rises with each change
	of      map[int32]map[string]string
	resync  map[int32]map[string]string // by source under resync
}

func newPool() *pool {
	return &pool{of: make(map[int32]map[string]string), resync: make(map[int32]map[string]string)}
}

func (p *pool) set(source int32, field string, value []byte) {
	if p.of[source] == nil {
		p.of[source] = make(map[string]string)
	}
	to := p.of[source]
	if sent, ok := p.resync[source]; ok {
		to = sent
	} else {
		p.version++
	}
	if value == nil {
		delete(to, field)
		return
	}
	to[field] = string(value)
}

// begin starts a resync of a source. Its earlier fields hold until whole: the first new fields may name a closed period whose groups come
// later.
func (p *pool) begin(source int32) {
	p.resync[source] = make(map[string]string)
}

func (p *pool) endResync(source int32) {
	if resynced, ok := p.resync[source]; ok {
		p.of[source] = resynced
		delete(p.resync, source)
		p.version++
	}
}

func (p *pool) sources() []int32 { return slices.Sorted(maps.Keys(p.of)) }

func (p *pool) totals(source int32, x *experiment.Experiment) experiment.Totals {
	t, err := x.ParseTotals(p.of[source][x.Name+totalsField])
	if err != nil {
		return make(experiment.Totals, len(x.Arms))
	}
	return t
}

func (p *pool) closed(source int32, x *experiment.Experiment) int64 {
	n, err := parsePeriod(x, p.of[source][x.Name+closedField])
	if err != nil {
		return noPeriod
	}
	return n
}

func (p *pool) past(source int32, x *experiment.Experiment, each func(period int64, groups experiment.Groups)) {
	for field, value := range p.of[source] {
		of, name, _ := strings.Cut(field, ":")
		f, ok := parseField(":"+name, x.ByUser)
		if of != x.Name || !ok || f.kind != pastField {
			continue
		}
		if groups, err := parsePast(x, value); err == nil {
			each(f.n, groups)
		}
	}
}

func (p *pool) verdict(source int32, x *experiment.Experiment, arm string) (verdictOf, bool) {
	v, err := parseVerdict(x, p.of[source][x.Name+verdictField+arm])
	return v, err == nil
}
