package faults

import (
	"math/rand/v2"
	"slices"
	"time"
)

// deck deals the kinds of faults in rounds. Each resource's kinds are shuffled before a
// round, and each is dealt once per round. It is pure, and not safe for concurrent use.
type deck struct {
	rng   *rand.Rand
	piles []*pile
	busy  map[Resource]int
}

type pile struct {
	kinds []Fault
	left  []Fault // of the present round, in the order of dealing
	dealt int
}

// rare returns how many resources besides its own an undealt kind needs.
func (p *pile) rare(f *Fault) int {
	if p.dealt >= len(p.kinds) {
		return 0
	}
	return len(f.Also)
}

func newDeck(kinds []Fault, rng *rand.Rand) *deck {
	d := &deck{rng: rng, busy: map[Resource]int{}}
	for _, f := range kinds {
		at := slices.IndexFunc(d.piles, func(p *pile) bool { return p.kinds[0].Uses == f.Uses })
		if at < 0 {
			at, d.piles = len(d.piles), append(d.piles, &pile{})
		}
		d.piles[at].kinds = append(d.piles[at].kinds, f)
	}
	for _, p := range d.piles {
		d.shuffle(p)
	}
	return d
}

func (d *deck) shuffle(p *pile) {
	p.left = slices.Clone(p.kinds)
	d.rng.Shuffle(len(p.left), func(i, j int) { p.left[i], p.left[j] = p.left[j], p.left[i] })
}

// deal takes a kind whose resources are free, and which ends within the time left. In the first round kinds with several
// resources come first, since these are rarely free together. Then the pile with the least progress in its rounds comes first.
func (d *deck) deal(left time.Duration) (_ Fault, ok bool) {
	var from *pile
	var card int
	before := func(p *pile, f *Fault) bool {
		if from == nil {
			return true
		}
		if a, b := p.rare(f), from.rare(&from.left[card]); a != b {
			return a > b
		}
		return p.dealt*len(from.kinds) < from.dealt*len(p.kinds)
	}
	for _, at := range d.rng.Perm(len(d.piles)) {
		p := d.piles[at]
		for i := range p.left {
			if f := &p.left[i]; d.fits(f, left) && before(p, f) {
				from, card = p, i
			}
		}
	}
	if from == nil {
		return Fault{}, false
	}
	f := from.left[card]
	from.left = slices.Delete(from.left, card, card+1)
	from.dealt++
	if len(from.left) == 0 {
		d.shuffle(from)
	}
	d.hold(&f, 1)
	return f, true
}

// giveBack frees a fault's resources. One that did not happen is dealt again in this round.
func (d *deck) giveBack(f *Fault, happened bool) {
	d.hold(f, -1)
	if happened {
		return
	}
	for _, p := range d.piles {
		same := func(other Fault) bool { return other.Kind == f.Kind }
		if slices.ContainsFunc(p.kinds, same) && !slices.ContainsFunc(p.left, same) {
			p.left = append(p.left, *f)
			p.dealt--
		}
	}
}

func (d *deck) fits(f *Fault, left time.Duration) bool {
	free := d.busy[f.Uses] < capacity[f.Uses]
	for _, r := range f.Also {
		free = free && d.busy[r] == 0
	}
	return free && f.Takes <= left
}

// hold takes a fault's resources; -1 frees them.
func (d *deck) hold(f *Fault, n int) {
	d.busy[f.Uses] += n
	for _, r := range f.Also {
		d.busy[r] += n * capacity[r]
	}
}

// round returns the approximate time to deal each kind once, plus a fifth for kinds that did not happen or take longer.
func (d *deck) round() time.Duration {
	takes := map[Resource]time.Duration{}
	for _, p := range d.piles {
		for i := range p.kinds {
			f := &p.kinds[i]
			takes[f.Uses] += f.Takes / time.Duration(capacity[f.Uses])
			for _, r := range f.Also {
				takes[r] += f.Takes
			}
		}
	}
	longest := time.Duration(0)
	for _, d := range takes {
		longest = max(longest, d)
	}
	return longest * 6 / 5
}
