package checker

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// cut is how far a topic was read, with the witness: the last record read.
type cut struct {
	offset  int64
	witness witness
}

type witness struct {
	offset    int64 // -1: none
	timestamp int64
	hash      uint64
}

// state is what Redis holds of a partition, parsed. What could not be is a violation already, and left out.
type state struct {
	writer    string // token of the last checkpoint's writer
	placement string // what the hash depends on that an id lies in; empty: on the id alone
	seq       int64
	inputs    [event.Inputs]cut
	rankings  cut
	steps     string               // since the last ranking; empty: of a version before there were any
	producers []int64              // that owners had
	skipped   [event.Inputs][]span // by commands
	watermark event.Millis
	floor     int64 // first bucket of the expiry index that is not closed
	account   map[string]int64
	shares    map[string]int64 // of the learners' accounts, added up
	history   []history
	learners  []string          // by number
	entries   map[string]*entry // by impression id
	due       map[int64]map[string]struct{}
	buckets   map[int64]struct{} // that are said not to be empty
	hashes    map[string]map[string]string
	deltas    []any
	complete  bool // every entry could be read
}

var roles = [event.Topics]string{"impressions", "selections", "payoffs", "rankings"}

// readState parses a snapshot. It fails only where nothing could be checked with what there is.
func readState(snap *snapshot, hasSelections bool, out *findings) (*state, error) {
	st := &state{account: map[string]int64{}, shares: map[string]int64{}, entries: map[string]*entry{}, due: map[int64]map[string]struct{}{},
		buckets: map[int64]struct{}{}, hashes: map[string]map[string]string{}, complete: true}
	torn := snap.meta["torn"]
	if !out.ok(metaTorn, torn == "") {
		out.breach(metaTorn, "torn", "no checkpoint under way", strconv.Quote(torn))
	}
	if err := st.readMeta(snap.meta, hasSelections, out); err != nil {
		return nil, err
	}
	for i := range snap.keys {
		if err := st.readKey(&snap.keys[i], out); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func (st *state) readMeta(meta map[string]string, hasSelections bool, out *findings) error {
	number := func(field string) int64 {
		n, err := strconv.ParseInt(meta[field], 10, 64)
		if !out.ok(metaFields, err == nil && n >= 0) {
			out.breach(metaFields, field, "a number from 0 on", strconv.Quote(meta[field]))
		}
		return n
	}
	for _, field := range []string{"token", "writer", "cluster"} {
		if !out.ok(metaFields, meta[field] != "") {
			out.breach(metaFields, field, "something", "nothing")
		}
	}
	if layout := meta["layout"]; layout != "1" && layout != "2" {
		return fmt.Errorf("the stored state has layout %q, this program reads 1 and 2", layout)
	}
	st.placement, st.steps = meta["placement"], meta["steps"]
	// A state that was begun in layout 1 has none for good. One of layout 2 shows that it was begun with one by where its entries lie.
	if !out.ok(metaFields, st.placement == "" || meta["layout"] != "1") {
		out.breach(metaFields, "placement", "none with layout 1", strconv.Quote(st.placement))
	}
	if former := meta["former_producers"]; former != "" {
		err := json.Unmarshal([]byte(former), &st.producers)
		if !out.ok(metaFields, err == nil) {
			out.breach(metaFields, "former_producers", "a JSON array of numbers", former)
		}
	}
	if id := meta["producer_id"]; id != "" && id != "-1" {
		st.producers = append(st.producers, number("producer_id"))
	}
	st.seq, st.writer = number("seq"), meta["writer"]
	// A worker's checkpoints are called by its token and seq; those of the state commands otherwise.
	if id := meta["checkpoint"]; strings.HasPrefix(id, st.writer+"-") {
		equal(out, metaFields, "checkpoint", fmt.Sprintf("%s-%d", st.writer, st.seq), id)
	} else if !out.ok(metaFields, id != "" || st.seq == 0) {
		out.breach(metaFields, "checkpoint", fmt.Sprintf("the id of checkpoint %d", st.seq), "nothing")
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
		if !out.ok(metaFields, name != "") {
			out.breach(metaFields, "learner table", fmt.Sprintf("a learner of number %d", no), "none")
		}
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func readWitness(meta map[string]string, role string, out *findings) witness {
	field := "witness." + role
	w := witness{offset: -1}
	parts := strings.Split(meta[field], ":")
	ok := len(parts) == 3
	if ok {
		var errs [3]error
		w.offset, errs[0] = strconv.ParseInt(parts[0], 10, 64)
		w.timestamp, errs[1] = strconv.ParseInt(parts[1], 10, 64)
		w.hash, errs[2] = strconv.ParseUint(parts[2], 16, 64)
		ok = errs == [3]error{} && w.offset >= -1
	}
	if !out.ok(metaFields, ok) {
		out.breach(metaFields, field, "offset:timestamp:hash", strconv.Quote(meta[field]))
		w.offset = -1
	}
	return w
}

// maxLearners bounds what a faulty learner table makes us allocate.
const maxLearners = 1 << 16

func (st *state) readLearner(name, value string, out *findings) {
	var line struct {
		No      *int             `json:"no"`
		Account map[string]int64 `json:"account"`
	}
	err := json.Unmarshal([]byte(value), &line)
	ok := err == nil && line.No != nil && *line.No >= 0 && *line.No < maxLearners
	for ok && len(st.learners) <= *line.No {
		st.learners = append(st.learners, "")
	}
	ok = ok && st.learners[*line.No] == ""
	if !out.ok(metaFields, ok) {
		out.breach(metaFields, "learner."+name, "a number of its own", value)
		return
	}
	st.learners[*line.No] = name
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
	case k.name == "due" && k.kind == "zset":
		for _, v := range values {
			if bucket, ok := readBucket(v, out); ok {
				st.buckets[bucket] = struct{}{}
			}
		}
	case colon && before == "due" && k.kind == "set":
		bucket, ok := readBucket(after, out)
		if !ok {
			return nil
		}
		set := make(map[string]struct{}, len(values))
		for _, id := range values {
			set[id] = struct{}{}
		}
		st.due[bucket] = set
	case colon && before == "e" && k.kind == "hash":
		for i := 0; i+1 < len(values); i += 2 {
			if place := st.place(values[i]); !out.ok(entriesPlaced, place == after) {
				out.breach(entriesPlaced, values[i], "in hash e:"+place, "in hash "+k.name)
			}
			st.readEntry(values[i], values[i+1], out)
		}
	case colon && k.kind == "hash":
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

// place is which of the 16,384 hashes an id lies in.
func (st *state) place(id string) string {
	number := xxhash.Sum64String(id)
	if st.placement != "" {
		sum := sha256.Sum256([]byte(st.placement + id))
		number = uint64(sum[0])<<8 | uint64(sum[1])
	}
	return fmt.Sprintf("%04x", number%(1<<14))
}

func readBucket(s string, out *findings) (int64, bool) {
	bucket, err := strconv.ParseInt(s, 10, 64)
	ok := out.ok(index, err == nil && bucket >= 0)
	if !ok {
		out.breach(index, s, "a bucket's number", strconv.Quote(s))
	}
	return bucket, ok
}

func (st *state) readEntry(id, value string, out *findings) {
	e, err := decodeEntry([]byte(value))
	if err == nil && e.kind != waiting && (int(e.learner) >= len(st.learners)) {
		err = fmt.Errorf("learner number %d, but there are only %d", e.learner, len(st.learners))
	}
	if !out.ok(entriesReadable, err == nil) {
		out.breach(entriesReadable, id, "an entry", err.Error())
		st.complete = false
		return
	}
	st.entries[id] = e
}
