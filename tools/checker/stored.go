package checker

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// hashesOf are a learner's checkable hashes, by its delay.
var hashesOf = map[string][]string{
	delayQPMD:   {"queue", "flights", "learner", "windows"},
	delayBOLD:   {"instances", "rounds", "vectors", "windows", "learner"},
	delayDirect: {"flights", "windows", "learner", "settled", "ages", "open", "history", "recent", "levels", "cells", "linear", "categories", "met", "attraction"},
}

// itemHashes name and number a learner's items.
var itemHashes = []string{"items", "names", "catalogue"}

// preferenceHashes are those of a learner that finds the order of utilities.
var preferenceHashes = []string{"preferences", "utilities"}

// load parses the learners' hashes, and reports the ones that cannot be checked.
func (f *fold) load() {
	for name, fields := range f.state.hashes {
		learner, hash, _ := strings.Cut(name, ":")
		lf := f.learners[learner]
		if lf == nil {
			f.out.skip("hash %q: learner %q is in none of the configurations", name, learner)
			continue
		}
		known := hash == "imported" || slices.Contains(itemHashes, hash) || slices.Contains(hashesOf[lf.delay], hash) ||
			!lf.given && slices.Contains(preferenceHashes, hash)
		if !known {
			f.out.skip("hash %q (%d fields): not known with delay %s", name, len(fields), lf.delay)
			continue
		}
		switch {
		case slices.Contains(itemHashes, hash): // after the others, below
		case hash == "imported":
			lf.begin(f, name, fields)
		default:
			lf.stored.loadHash(f.out, name, hash, fields)
		}
	}
	for _, lf := range f.learners {
		of := func(hash string) map[string]string { return f.state.hashes[lf.name+":"+hash] }
		lf.stored.loadItems(f, lf.name, of("items"), of("names"), of("catalogue"))
		for number, q := range lf.stored.queues {
			if q.complete(f.out, lf.name, number, lf.stored.name(number)) && lf.stored.names[number] != "" {
				lf.item(lf.stored.numbers[number]).queue = newQueueFold(q)
			}
		}
	}
}

// loadItems parses items. Each has its own number from 0; ended items leave gaps below
// the learner's next number. Pages name all items; a row must agree with the page.
func (s *storedLearner) loadItems(f *fold, learner string, rows, pages, counts map[string]string) {
	out := f.out
	most := f.state.next[learner] + int64(len(rows)) + namesInPage*int64(len(pages))
	s.items = make(map[string]storedItem, len(rows)+namesInPage*len(pages))
	s.names = make(map[int64]string, len(s.items))
	s.numbers = make(map[int64]uint32, len(s.items))
	place := func(name string, it storedItem) bool {
		if it.number < 0 || it.number >= most || it.until < 0 || s.names[it.number] != "" || name == "" || s.items[name] != (storedItem{}) {
			return false
		}
		s.items[name], s.names[it.number], s.numbers[it.number] = it, name, f.items.intern([]byte(name))
		return true
	}
	for page, value := range pages {
		items, err := parseNamesPage(page, value)
		ok := err == nil
		for name, it := range items {
			ok = ok && place(name, it)
		}
		out.must(itemsCatalogue, ok, learner+": names of page "+page, "names of items, each with a number of its own",
			say("%.100q: %v", value, err))
	}
	for name, value := range rows {
		var v struct {
			No         *int64
			N          *int64
			Sum, SumSq *float64
			Until      int64
		}
		err := json.Unmarshal([]byte(value), &v)
		ok := err == nil && v.No != nil && v.N != nil && v.Sum != nil && v.SumSq != nil
		if ok {
			row := storedItem{*v.No, *v.N, *v.Sum, *v.SumSq, v.Until}
			if named, there := s.items[name]; there && len(counts) > 0 {
				ok = named.number == row.number
				row.until = named.until
				s.items[name] = row
			} else {
				ok = len(counts) == 0 && place(name, row)
			}
		}
		out.must(itemsCatalogue, ok, learner+": "+name, say("statistics and a number of its own below %d, the same as among the names", most),
			value)
	}
	s.checkNumbers(f, learner, counts)
}

// checkNumbers checks that items have the numbers from 0 on, ended ones apart, and that the stored count is theirs.
func (s *storedLearner) checkNumbers(f *fold, learner string, counts map[string]string) {
	gaps, beyond := f.state.next[learner], int64(0)
	s.next = gaps
	for number := range s.names {
		s.next = max(s.next, number+1)
		if number >= gaps {
			beyond++
		}
	}
	equal(f.out, itemsCatalogue, learner+": items met since one was dropped last", s.next-gaps, beyond)
	if n, there := counts["items"]; there {
		equal(f.out, itemsCatalogue, learner+": number of items", n, strconv.Itoa(len(s.names)))
	}
}

// namesInPage is the number of items in a page of names.
const namesInPage = 64

// parseNamesPage reads a page. It begins with the earliest time until which its items are kept. For each number from page·64 on follow the
// name's length plus 1, the name, and how much longer it is kept; 0 for no item. All numbers are varints.
func parseNamesPage(page, value string) (map[string]storedItem, error) {
	w, c := split(page, " "), cursor{b: []byte(value)}
	first, least := int64(w.number(0)), c.natural()
	items := map[string]storedItem{}
	for k := int64(0); len(c.b) > 0; k++ {
		length := c.natural()
		if length == 0 {
			continue
		}
		name := string(c.take(int(length) - 1))
		if _, twice := items[name]; twice || k >= namesInPage {
			c.take(-1)
		}
		items[name] = storedItem{number: first*namesInPage + k, until: least + c.natural()}
	}
	return items, cmp.Or(w.end(), c.err)
}

// loads are the readers of a learner's own hashes, by field and value.
var loads = map[string]func(s *storedLearner, field, value string) error{
	"queue":       (*storedLearner).loadPayoff,
	"flights":     byItem((*storedLearner).loadFlights),
	"settled":     byItem((*storedLearner).loadSettled),
	"ages":        (*storedLearner).loadAges,
	"history":     (*storedLearner).loadHistory,
	"recent":      byItem((*storedLearner).loadRecent),
	"levels":      (*storedLearner).loadLevels,
	"attraction":  byItem((*storedLearner).loadAttraction),
	"open":        byItem((*storedLearner).loadOpen),
	"cells":       (*storedLearner).loadCell,
	"met":         byItem(func(s *storedLearner, i int64, value string) error { return loadCount(&s.met, i, value) }),
	"categories":  byItem((*storedLearner).loadCategory),
	"linear":      (*storedLearner).loadLinear,
	"instances":   byItem(func(s *storedLearner, k int64, value string) error { return loadCount(&s.outstanding, k, value) }),
	"rounds":      func(s *storedLearner, field, value string) error { return loadCount(&s.rounds, field, value) },
	"windows":     func(s *storedLearner, field, value string) error { return loadCount(&s.windows, field, value) },
	"vectors":     (*storedLearner).loadVector,
	"preferences": (*storedLearner).loadPair,
	"utilities":   byItem((*storedLearner).loadRatings),
	"learner":     (*storedLearner).loadOwn,
}

// loadOwn reads a field that is not by item.
func (s *storedLearner) loadOwn(field, value string) error {
	switch field {
	case "hold":
		s.hold = value
	case "windows":
		return loadEstimate(value)
	case "silence":
		return s.loadDelayDistribution(value)
	case "below":
		return loadBelow(value)
	case "levels":
		return loadSpread(value)
	case "falls":
		return s.loadFalls(value)
	case "fit", "looked": // derived from payoffs
	default:
		return errUnknown
	}
	return nil
}

var errUnknown = errors.New("not known")

// loadHash parses one of the learner's own hashes.
func (s *storedLearner) loadHash(out *findings, name, hash string, fields map[string]string) {
	for field, value := range fields {
		err := loads[hash](s, field, value)
		if errors.Is(err, errUnknown) {
			out.skip("field %q of hash %q: not known", field, name)
			err = nil
		}
		out.must(delayFields, err == nil, name+" "+field, "a field as the learner writes it", say("%.100q: %v", value, err))
	}
}
