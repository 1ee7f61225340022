package checker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay/silence"
)

// storedLearner is what Redis has of a learner.
type storedLearner struct {
	items       map[string]storedItem
	names       map[int64]string // by number
	numbers     map[int64]uint32 // of the fold, by number
	next        int64            // the number that the next new item gets
	queues      map[int64]*storedQueue
	flights     map[int64]int64
	spans       map[int64][]storedSpan // of these, in the order of time
	settled     map[int64]settledCounts
	ages        map[ageRow]storedAges
	open        map[int64]openParts
	pass        int64 // of silence
	history     map[int64]map[silence.Block]paidRow
	lately      map[int64]map[silence.Block]recentRow
	levels      map[silence.Block]surpriseRow
	latelyPass  int64  // the pass of the newest selection that was paid
	faded       int64  // the pass up to which evidence has faded
	estimated   *int64 // the pass of what was estimated; nil: nothing was
	hold        string
	outstanding map[int64]int64
	rounds      map[string]int64
	vectors     map[string]map[uint32]float64 // by instance, as rounds name it, and coordinate
	blocks      map[string]int64              // of those
	windows     map[string]int64
	pairs       map[[2]uint32]int64 // by the numbers of the better and the worse item
	against     map[[2]uint32]int64 // those of them against an order that was certain
	rated       map[uint32]moments  // by an item's number
}

type storedItem struct {
	number  int64
	n       int64
	sum, sq float64
	until   int64
}

// hashesOf are the hashes of a learner that can be checked, by its delay.
var hashesOf = map[string][]string{
	delayQPMD:   {"queue", "queues", "flights", "learner", "windows"},
	delayBOLD:   {"instances", "rounds", "vectors", "windows", "learner"},
	delayDirect: {"flights", "windows", "learner", "settled", "ages", "open", "history", "lately", "levels"},
}

// preferenceHashes are those of a learner that finds the order of utilities.
var preferenceHashes = []string{"preferences", "utilities"}

// load parses what Redis has of the learners. What nothing here can check is said.
func (f *fold) load() {
	for name, fields := range f.state.hashes {
		learner, hash, _ := strings.Cut(name, ":")
		lf := f.learners[learner]
		if lf == nil {
			f.out.skip("hash %q: learner %q is in none of the configurations", name, learner)
			continue
		}
		known := hash == "items" || hash == "imported" || slices.Contains(hashesOf[lf.delay], hash) ||
			!lf.given && slices.Contains(preferenceHashes, hash)
		if !known {
			f.out.skip("hash %q (%d fields): not known with delay %s", name, len(fields), lf.delay)
			continue
		}
		switch hash {
		case "items": // with the others' numbers, below
		case "imported":
			lf.begin(f, name, fields)
		default:
			lf.stored.loadHash(f.out, name, hash, fields)
		}
	}
	for _, lf := range f.learners {
		lf.stored.loadItems(f, lf.name, f.state.hashes[lf.name+":items"])
		for number, q := range lf.stored.queues {
			if q.complete(f.out, lf.name, number, lf.stored.name(number)) && lf.stored.names[number] != "" {
				lf.item(lf.stored.numbers[number]).queue = newQueueFold(q)
			}
		}
	}
}

// name gives an item's name by its number.
func (s *storedLearner) name(number int64) string {
	if name, ok := s.names[number]; ok {
		return name
	}
	return fmt.Sprintf("number %d", number)
}

// loadItems parses items: each has a number of its own, from 0 on. Below the number that the line of the learner says is next there may be
// gaps, of items that have ended.
func (s *storedLearner) loadItems(f *fold, learner string, fields map[string]string) {
	out := f.out
	s.items = make(map[string]storedItem, len(fields))
	s.names = make(map[int64]string, len(fields))
	s.numbers = make(map[int64]uint32, len(fields))
	gaps, beyond := f.state.next[learner], int64(0)
	s.next = gaps
	for name, value := range fields {
		var v struct {
			No         *int64
			N          *int64
			Sum, SumSq *float64
			Until      int64
		}
		err := json.Unmarshal([]byte(value), &v)
		ok := err == nil && v.No != nil && v.N != nil && v.Sum != nil && v.SumSq != nil && *v.No >= 0 && *v.No < gaps+int64(len(fields)) &&
			v.Until >= 0 && s.names[*v.No] == "" && name != ""
		if !out.ok(itemsCatalogue, ok) {
			out.breach(itemsCatalogue, learner+": "+name, fmt.Sprintf("statistics and a number of its own below %d", gaps+int64(len(fields))), value)
			continue
		}
		s.items[name] = storedItem{*v.No, *v.N, *v.Sum, *v.SumSq, v.Until}
		s.names[*v.No] = name
		s.numbers[*v.No] = f.items.intern([]byte(name))
		s.next = max(s.next, *v.No+1)
		if *v.No >= gaps {
			beyond++
		}
	}
	if gaps > 0 {
		equal(out, itemsCatalogue, learner+": items met since one was dropped last", s.next-gaps, beyond)
	}
}

// fold is the fold's number of an item that Redis numbers so.
func (s *storedLearner) fold(number uint32) uint32 {
	if n, ok := s.numbers[int64(number)]; ok {
		return n
	}
	return noItem
}

// number is the fold's number of an item that Redis numbers so; noItem where there is none.
func (lf *learnerFold) number(stored int32) uint32 {
	if stored < 0 {
		return noItem
	}
	return lf.stored.fold(uint32(stored))
}

// loadHash parses one of the learner's own hashes.
func (s *storedLearner) loadHash(out *findings, name, hash string, fields map[string]string) {
	for field, value := range fields {
		var err error
		switch hash {
		case "queue":
			err = s.loadPayoff(field, value)
		case "queues":
			err = s.loadQueue(field, value)
		case "flights":
			err = s.loadFlights(field, value)
		case "settled":
			err = s.loadSettled(field, value)
		case "ages":
			err = s.loadAges(field, value)
		case "history":
			err = s.loadHistory(field, value)
		case "lately":
			err = s.loadRecent(field, value)
		case "levels":
			err = s.loadLevels(field, value)
		case "open":
			err = s.loadOpen(field, value)
		case "instances":
			err = loadCount(&s.outstanding, field, value)
		case "rounds":
			err = loadNamed(&s.rounds, field, value)
		case "windows":
			err = loadNamed(&s.windows, field, value)
		case "learner":
			switch field {
			case "hold":
				s.hold = value
			case "windows":
				err = loadEstimate(value)
			case "silence":
				err = s.loadLateness(value)
			case "below":
				err = loadBelow(value)
			case "levels":
				err = loadSpread(value)
			default:
				out.skip("field %q of hash %q: not known", field, name)
			}
		case "vectors":
			err = s.loadVector(field, value)
		case "preferences":
			err = s.loadPair(field, value)
		case "utilities":
			err = s.loadRatings(field, value)
		}
		if !out.ok(delayFields, err == nil) {
			out.breach(delayFields, name+" "+field, "a field as the learner writes it", fmt.Sprintf("%.100q: %v", value, err))
		}
	}
}

func loadCount(into *map[int64]int64, field, value string) error {
	k, err := strconv.ParseInt(field, 10, 64)
	if err != nil || k < 0 {
		return fmt.Errorf("field is no number: %w", err)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("value is no number above 0: %w", err)
	}
	if *into == nil {
		*into = map[int64]int64{}
	}
	(*into)[k] = n
	return nil
}

func loadNamed(into *map[string]int64, field, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("value is no number above 0: %w", err)
	}
	if *into == nil {
		*into = map[string]int64{}
	}
	(*into)[field] = n
	return nil
}
