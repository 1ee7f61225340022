package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDeck_DealsAllKindsInRounds: faults that take as long as they say, and of which one in twenty does not happen. Each kind happens in a
// run of one round and the time of those that did not happen. No resource holds more than it has room for, and within a resource no kind is
// two rounds ahead of another. In 20,000 rounds the last kind ended 102 s early or more. A tenth of the chance costs 50 s, so fewer than
// one in a million fail.
func TestDeck_DealsAllKindsInRounds(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 0))
	for range 5 {
		dealAll(t, newDeck(Faults(), rng), rng)
	}
}

// running is a fault under way.
type running struct {
	Fault
	until time.Duration
}

func dealAll(t *testing.T, d *deck, rng *rand.Rand) {
	t.Helper()
	var all []running
	happened, failed := map[string]int{}, map[string]bool{}
	end := d.round()
	for now := time.Duration(0); now < end; now += 2 * time.Second {
		kept := all[:0]
		for _, f := range all {
			if f.until > now {
				kept = append(kept, f)
				continue
			}
			did := failed[f.Kind] || rng.IntN(20) > 0
			d.giveBack(&f.Fault, did)
			if did {
				happened[f.Kind]++
			} else {
				failed[f.Kind] = true
				end += f.Takes
			}
		}
		all = kept
		if f, ok := d.deal(end - now); ok {
			all = append(all, running{f, now + f.Takes})
		}
		use := map[Resource]int{}
		for _, f := range all {
			use[f.Uses]++
			for _, r := range f.Also {
				use[r] += capacity[r]
			}
		}
		for r, n := range use {
			if n > capacity[r] {
				t.Fatalf("%d faults are at work on %s", n, r)
			}
		}
	}
	for _, f := range all {
		happened[f.Kind]++
	}
	for _, p := range d.piles {
		least, most := happened[p.kinds[0].Kind], 0
		for _, f := range p.kinds {
			require.Positive(t, happened[f.Kind], f.Kind)
			least, most = min(least, happened[f.Kind]), max(most, happened[f.Kind])
		}
		require.LessOrEqual(t, most-least, 2, p.kinds[0].Uses)
	}
}

// TestSoak_RequiresAllKindsInTenMinutes: a round of the default soak has time in it.
func TestSoak_RequiresAllKindsInTenMinutes(t *testing.T) {
	s := soak{opt: Options{Duration: 10 * time.Minute}}
	s.defaults()
	require.Len(t, s.kinds, len(Faults())-1, "epochs of a producer run out in as long")
	require.LessOrEqual(t, s.deck.round(), s.opt.Duration)
}
