package checker

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
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

// loads are the readers of a learner's own hashes. Each reads a field's name, between colons, and its value, between blanks.
var loads = map[string]func(s *storedLearner, k, w *words){
	// "<item>:<index>": a payoff
	"queue": func(s *storedLearner, k, w *words) {
		put(&made(&s.queues, k.item()).fields, k.int(anyInt), w.float(0, 1))
	},
	"flights": (*storedLearner).loadFlights,
	"settled": (*storedLearner).loadSettled,
	"ages":    (*storedLearner).loadAges,
	"history": (*storedLearner).loadHistory,
	"recent":  (*storedLearner).loadRecent,
	"levels":  (*storedLearner).loadLevels,
	// "<item>": impressions that ended with and without a selection
	"attraction": func(s *storedLearner, k, w *words) {
		e := endings{w.int(0), w.int(0)}
		if e == (endings{}) {
			w.fail("of no impressions")
		}
		put(&s.attraction, k.item(), e)
	},
	// "<item>": number, sum, and sum of squares
	"open":  func(s *storedLearner, k, w *words) { put(&s.open, k.item(), openParts{w.int(1), w.int(0), w.int(0)}) },
	"cells": (*storedLearner).loadCell,
	// "<item>": time
	"met": func(s *storedLearner, k, w *words) { put(&s.met, k.item(), w.int(1)) },
	// "<item>": name, which may hold blanks
	"categories": func(s *storedLearner, k, w *words) {
		name := category(w.text())
		if name == "" {
			w.fail("no name")
		}
		put(&s.categories, k.item(), name)
	},
	"linear": (*storedLearner).loadLinear,
	// "<instance>", "<instance>" or "<instance>:<length>", and "<interval>": a number above 0
	"instances":   func(s *storedLearner, k, w *words) { put(&s.outstanding, k.item(), w.int(1)) },
	"rounds":      func(s *storedLearner, k, w *words) { put(&s.rounds, k.text(), w.int(1)) },
	"windows":     func(s *storedLearner, k, w *words) { put(&s.windows, k.text(), w.int(1)) },
	"vectors":     (*storedLearner).loadVector,
	"preferences": (*storedLearner).loadPair,
	// "<item>": number of estimates, mean, and sum of squared deviations
	"utilities": func(s *storedLearner, k, w *words) {
		put(&s.rated, uint32(k.item()), moments{w.int(1), w.float(-maxEstimate, maxEstimate), w.float(0, math.Inf(1))})
	},
	"learner": (*storedLearner).loadOwn,
}

// load reads a field of one of the learner's own hashes.
func (s *storedLearner) load(hash, field, value string) error {
	k, w := split(field, ":"), split(value, " ")
	loads[hash](s, k, w)
	return cmp.Or(w.err, k.end(), w.end())
}

// loadOwn reads a field that is not by item.
func (s *storedLearner) loadOwn(k, w *words) {
	switch k.text() {
	case "hold":
		s.hold = w.text()
	case "windows":
		loadEstimate(w)
	case "silence":
		s.loadDelayDistribution(w)
	case "below": // share of payoffs below the default, their mean, and cumulative shares by bin
		w.shares(2)
	case "levels": // pass, payoffs, mean, σ, τ, slope, half-life, and levels by block, over all items
		for range 7 {
			w.float(math.Inf(-1), math.Inf(1))
		}
		w.rows(func(_ inflight.Bucket, row *words) { row.int(anyInt) })
	case "falls": // of shares: ":" and the state of the search
		w.parts(":", func(w *words) {
			w.next("")
			n := w.ints(8)
			s.falls = storedFalls{n[0], n[1], n[5], endings{n[6], n[7] - n[6]}}
		})
	case "fit", "looked": // derived from payoffs
		w.text()
	default:
		w.left, w.err = nil, errUnknown
	}
}

var errUnknown = errors.New("not known")

// loadHash parses one of the learner's own hashes.
func (s *storedLearner) loadHash(out *findings, name, hash string, fields map[string]string) {
	for field, value := range fields {
		err := s.load(hash, field, value)
		if errors.Is(err, errUnknown) {
			out.skip("field %q of hash %q: not known", field, name)
			err = nil
		}
		out.must(delayFields, err == nil, name+" "+field, "a field as the learner writes it", say("%.100q: %v", value, err))
	}
}
