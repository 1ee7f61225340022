package checker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// readState parses a snapshot. It fails only if nothing could be checked.
func readState(snap *snapshot, hasSelections bool, out *findings) (*state, error) {
	st := &state{account: map[string]int64{}, shares: map[string]int64{}, next: map[string]int64{}, kept: map[string]int64{}, entries: map[string]*entry{}, pages: map[string]int64{},
		hashes: map[string]map[string]string{}, complete: true}
	torn := snap.meta["torn"]
	out.must(metaTorn, torn == "", "torn", "no checkpoint under way", strconv.Quote(torn))
	if err := st.readMeta(snap.meta, hasSelections, out); err != nil {
		return nil, err
	}
	for i := range snap.keys {
		if err := st.readKey(&snap.keys[i], out); err != nil {
			return nil, err
		}
	}
	for i := range st.stored { // once all pages are known
		st.readEntry(&st.stored[i], out)
	}
	st.stored = nil
	return st, nil
}

func (st *state) readMeta(meta map[string]string, hasSelections bool, out *findings) error {
	number := func(field string) int64 {
		n, err := strconv.ParseInt(meta[field], 10, 64)
		out.must(metaFields, err == nil && n >= 0, field, "a number from 0 on", strconv.Quote(meta[field]))
		return n
	}
	for _, field := range []string{"token", "writer", "cluster"} {
		out.must(metaFields, meta[field] != "", field, "something", "nothing")
	}
	if layout := meta["layout"]; layout != "1" {
		return fmt.Errorf("the stored state has layout %q, this program reads 1", layout)
	}
	st.steps = meta["steps"]
	if _, has := meta["orders"]; has {
		st.orders = number("orders")
	}
	if former := meta["former_producers"]; former != "" {
		err := json.Unmarshal([]byte(former), &st.producers)
		out.must(metaFields, err == nil, "former_producers", "a JSON array of numbers", former)
	}
	if id := meta["producer_id"]; id != "" && id != "-1" {
		st.producers = append(st.producers, number("producer_id"))
	}
	st.seq, st.writer = number("seq"), meta["writer"]
	// A worker's checkpoint id is its token and seq; state commands use other ids.
	if id := meta["checkpoint"]; strings.HasPrefix(id, st.writer+"-") {
		equal(out, metaFields, "checkpoint", fmt.Sprintf("%s-%d", st.writer, st.seq), id)
	} else {
		out.must(metaFields, id != "" || st.seq == 0, "checkpoint", say("the id of checkpoint %d", st.seq), "nothing")
	}
	for t := range event.Topic(event.Inputs) {
		if t == event.Selections && !hasSelections {
			continue
		}
		st.inputs[t] = cut{number("offset." + roles[t]), readWitness(meta, roles[t], out)}
	}
	st.rankings = cut{number("rankings"), readWitness(meta, roles[event.Rankings], out)}
	if st.seq > 0 {
		st.watermark, st.floor = number("watermark"), number("floor")
	}
	for field, value := range meta {
		if name, ok := strings.CutPrefix(field, "account."); ok {
			st.account[name] = number(field)
		}
		st.readHistory(field, value, out)
		if name, ok := strings.CutPrefix(field, "learner."); ok {
			st.readLearner(name, value, out)
		}
	}
	for no, name := range st.learners {
		out.must(metaFields, name != "", "learner table", say("a learner of number %d", no), "none")
	}
	return nil
}

func readWitness(meta map[string]string, role string, out *findings) witness {
	field := "witness." + role
	r := split(meta[field], ":")
	w := witness{offset: r.int(-1), timestamp: r.int(anyInt)}
	hash, err := strconv.ParseUint(r.word(), 16, 64)
	if !out.must(metaFields, cmp.Or(r.end(), err) == nil, field, "offset:timestamp:hash", strconv.Quote(meta[field])) {
		return witness{offset: -1}
	}
	w.hash = hash
	return w
}

// maxLearners bounds the allocation for a faulty learner table.
const maxLearners = 1 << 16

func (st *state) readLearner(name, value string, out *findings) {
	var line struct {
		No      *int             `json:"no"`
		Account map[string]int64 `json:"account"`
		Next    int64            `json:"next"`
		Kept    *int64           `json:"kept"`
	}
	err := json.Unmarshal([]byte(value), &line)
	ok := err == nil && line.Next >= 0 && (line.Kept == nil || *line.Kept >= 0) && line.No != nil && *line.No >= 0 && *line.No < maxLearners
	for ok && len(st.learners) <= *line.No {
		st.learners = append(st.learners, "")
	}
	ok = ok && st.learners[*line.No] == ""
	if !out.must(metaFields, ok, "learner."+name, "a number of its own", value) {
		return
	}
	st.learners[*line.No], st.next[name] = name, line.Next
	if line.Kept != nil {
		st.kept[name] = *line.Kept
	}
	for count, n := range line.Account {
		st.shares[count] += n
	}
}

func (st *state) readKey(k *key, out *findings) error {
	if k.name == "deltas" && k.kind == "stream" {
		st.deltas = k.content
		return nil
	}
	values, err := k.strings()
	if err != nil {
		return err
	}
	before, after, colon := strings.Cut(k.name, ":")
	switch {
	case k.name == "pages" && k.kind == "zset":
		for i := 0; i+1 < len(values); i += 2 {
			bucket, err := strconv.ParseFloat(values[i+1], 64)
			if out.must(index, err == nil && bucket >= 0, "page "+values[i], "a bucket's number", say("%q", values[i+1])) {
				st.pages[values[i]] = int64(bucket)
			}
		}
	case colon && before == "p" && k.kind == "hash":
		n := len(values) / 2
		out.must(entriesPlaced, n <= 128, k.name, "at most 128 entries", n)
		for i := 0; i+1 < len(values); i += 2 {
			id := values[i]
			if _, twice := st.entries[id]; !out.ok(entriesPlaced, len(id) == 16 && !twice) {
				out.breach(entriesPlaced, say("%x", id), "an id of 16 bytes, in one page", say("%d bytes, in hash %s, in another: %t", len(id), k.name, twice))
			}
			st.entries[id] = nil
			st.stored = append(st.stored, storedEntry{id, after, values[i+1]})
		}
	case (colon || k.name == "experiments") && k.kind == "hash":
		fields := make(map[string]string, len(values)/2)
		for i := 0; i+1 < len(values); i += 2 {
			fields[values[i]] = values[i+1]
		}
		st.hashes[k.name] = fields
	default:
		out.skip("key %q of type %s: not known", k.name, k.kind)
	}
	return nil
}

func (st *state) readEntry(s *storedEntry, out *findings) {
	id, value := s.id, s.value
	if len(value) > 5 && value[0] == 0xff { // the partitioner's hash of the id's text
		value = value[5:]
	}
	e, err := decodeEntry([]byte(value), st.pages[s.page])
	if err == nil && e.kind != parkedOnly && (int(e.learner) >= len(st.learners)) {
		err = fmt.Errorf("learner number %d, but there are only %d", e.learner, len(st.learners))
	}
	if !out.must(entriesReadable, err == nil, say("%x", id), "an entry", err) {
		delete(st.entries, id)
		st.complete = false
		return
	}
	e.id, e.page = id, s.page
	st.entries[id] = e
}
