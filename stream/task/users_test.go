package task

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// habits configure the records of the simulated platform.
type habits struct {
	// tidy: each impression is selected from and paid, once, and nothing is faulty.
	tidy bool
	// prompt: the next record in order comes at once, not when the last has been processed.
	prompt bool
	// ordered: a record waits until the store has the one it follows. So nothing is ever parked,
	// and payoffs are fed in the order of their topic. A rollback of the store may lose it again.
	ordered bool
	// transactions: upstream producers leave control records and aborted records behind.
	transactions bool
	repeats      int  // one in so many impressions repeats an id; default 20
	faulty       int  // one in so many records is faulty; default 25
	learners     int  // 2: half of the impressions are for learner "front"
	contexts     bool // users say of themselves, and of some candidates, more than utilities
	groups       bool // and which groups they belong to
	pauses       bool // no impression comes for three quarters of the time
	uuids        bool // ids are UUIDs that producers choose so that any 32 bits of a hash of theirs may be the same, see collidingIDs
}

// closing is the id of a last impression, which nobody selects from.
const closing = "closing"

// users is a simulated platform: impressions, and for each ranking seen a selection and a payoff, in any order, now
// and then twice, malformed or never.
type users struct {
	w         *world
	habits    habits
	left      int
	made      int
	acts      int
	seen      int // of the rankings log
	scheduled []deed
}

// deed is a future action of a user, after the store has read the record it follows.
type deed struct {
	do     func()
	after  event.Topic
	offset int64 // -1: at any time
}

func newUsers(w *world, n int, h habits) *users {
	if h.repeats == 0 {
		h.repeats = 20
	}
	if h.faulty == 0 {
		h.faulty = 25
	}
	return &users{w: w, left: n, habits: h}
}

// put appends a record and returns its offset.
func (u *users) put(t event.Topic, key string, format string, args ...any) int64 {
	u.w.append(t, []byte(key), fmt.Appendf(nil, format, args...))
	return int64(len(u.w.inputs[t])) - 1
}

func (u *users) act() {
	rng := u.w.rng
	if rng.IntN(5) > 0 {
		return // the protocol takes a step or two for everything that users do
	}
	if u.habits.transactions && rng.IntN(20) == 0 && u.w.noise {
		u.w.upstream(event.Topic(rng.IntN(int(event.Inputs))))
	}
	u.acts++
	if paused := u.habits.pauses && u.acts%400 >= 100; !paused && u.left > 0 && rng.IntN(5) == 0 {
		u.left--
		u.impress()
	}
	for ; u.seen < len(u.w.rankings); u.seen++ {
		if l := u.w.rankings[u.seen]; !l.marker && l.producer.ID != foreignID && l.value != nil {
			u.react(l)
		}
	}
	if n := len(u.scheduled); n > 0 && rng.IntN(2) == 0 {
		k := rng.IntN(n)
		if d := u.scheduled[k]; d.offset < 0 || u.w.read(d.after) > d.offset {
			u.scheduled = slices.Delete(u.scheduled, k, k+1)
			d.do()
		}
	}
}

// read is how far the last checkpoint says that a topic has been read.
func (w *world) read(t event.Topic) int64 {
	if w.saved == nil {
		return -1
	}
	return w.saved[t].Offset
}

func (u *users) impress() {
	rng := u.w.rng
	u.made++
	name := func(n int) string {
		if u.habits.uuids {
			return collidingIDs()[n%len(collidingIDs())]
		}
		return fmt.Sprintf("i-%d", n)
	}
	id := name(u.made)
	if !u.habits.tidy && rng.IntN(u.habits.repeats) == 0 {
		id = name(1 + rng.IntN(u.made))
	}
	if !u.habits.tidy && rng.IntN(u.habits.faulty) == 0 {
		u.put(event.Impressions, id, `{"impression_id":"%s","candidates":[]}`, id)
	} else {
		learner := "feed"
		if u.habits.learners > 1 && rng.IntN(2) == 0 {
			learner = "front"
		}
		mood, size := "", ""
		if u.habits.contexts {
			mood, size = fmt.Sprintf(`"features":[%g],`, float64(u.made%17)/8-1), fmt.Sprintf(`"features":[%d],"predicted":%g,`, u.made%11, float64(u.made%5)/4)
		}
		if u.habits.groups {
			mood += [...]string{"", `"segment":"new",`, `"segment":"loyal",`, `"segment":"odd",`}[u.made%4]
			size += [...]string{"", fmt.Sprintf(`"category":"k%d",`, u.made/64%3)}[u.made%2]
		}
		pin := ""
		switch u.made % 9 {
		case 2, 5: // rules
			pin = fmt.Sprintf(`"pin":%d,`, 1+u.made%4)
		case 7:
			mood += `"exclude":["b","x"],`
		}
		u.put(event.Impressions, id, `{"impression_id":"%s","learner":"%s",%s"candidates":[{"item":"a",%s"utility":%d},`+
			`{"item":"b",%s"utility":%d},{"item":"c-%d","utility":0.5}]}`, id, learner, mood, size, rng.IntN(9), pin, rng.IntN(9), rng.IntN(4))
	}
	if !u.habits.tidy && !u.habits.ordered && rng.IntN(10) == 0 { // early
		u.put(event.Payoffs, id, `{"impression_id":"%s","payoff":0.5}`, id)
	}
}

// react plans the actions that follow a ranking.
func (u *users) react(l logged) {
	rng := u.w.rng
	var r event.Ranking
	if err := newRankingDecoder().Ranking(&r, l.value); err != nil {
		panic(err)
	}
	id, items := string(r.ID), make([]string, len(r.Items))
	if id == closing {
		return
	}
	for i := range r.Items {
		items[i] = string(r.Items[i])
	}
	times := func() int {
		if u.habits.tidy {
			return 1
		}
		return []int{0, 1, 1, 1, 1, 2}[rng.IntN(6)]
	}
	follow := func(t event.Topic, offset int64, do func()) {
		if !u.habits.ordered || u.habits.prompt {
			offset = -1
		}
		u.scheduled = append(u.scheduled, deed{do, t, offset})
	}
	pay := func(t event.Topic, offset int64) {
		for range times() {
			payoff := float64(rng.IntN(1025)) / 1024
			follow(t, offset, func() {
				switch {
				case u.habits.tidy || rng.IntN(u.habits.faulty) > 0:
				case u.habits.ordered && u.w.faults.rollback == 0 && u.w.faults.split == 0:
					payoff = 7
				default: // whether 7 is refused or comes too late depends on the interleaving
					u.put(event.Payoffs, id, `{"impression_id":"%s","payoff":"much"}`, id)
					return
				}
				u.put(event.Payoffs, id, `{"impression_id":"%s","payoff":%g}`, id, payoff)
			})
		}
	}
	selections := times()
	for k := range selections {
		follow(event.Impressions, r.Decision.Offset, func() {
			at := u.put(event.Selections, id, `{"impression_id":"%s","item":"%s"}`, id, items[rng.IntN(len(items))])
			if k == 0 && u.habits.ordered {
				pay(event.Selections, at)
			}
		})
	}
	if selections == 0 || !u.habits.ordered {
		pay(event.Impressions, r.Decision.Offset)
	}
}

func (u *users) done() bool {
	return u.left == 0 && len(u.scheduled) == 0 && u.seen == len(u.w.rankings)
}

// collidingIDs are ids in pairs, of which unkeyed 32-bit hashes (xxhash) are the same. A million have some 116 such pairs.
var collidingIDs = sync.OnceValue(func() (ids []string) {
	seen := map[uint32]string{}
	for n := range 1_000_000 {
		text := fmt.Sprintf("%08x-0000-4000-8000-000000000000", n)
		id := state.IDOf([]byte(text))
		hash := uint32(xxhash.Sum64(id[:]))
		if other, ok := seen[hash]; ok {
			ids = append(ids, other, text)
		}
		seen[hash] = text
	}
	return ids
})
