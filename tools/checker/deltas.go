package checker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// delta is one entry of the delta stream.
type delta struct {
	id      string
	fields  map[string]string
	changes []change
}

// change is a published field; a nil value means deleted.
type change struct {
	hash, field string
	value       *string
}

var errDelta = errors.New("it is no list of changes")

// parseDelta reads an entry in XRANGE's form.
func parseDelta(raw any) (d delta, err error) {
	parts, ok := raw.([]any)
	if !ok || len(parts) != 2 {
		return d, errDelta
	}
	d.id, _ = parts[0].(string)
	list, _ := parts[1].([]any)
	d.fields = map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		d.fields[name], _ = list[i+1].(string)
	}
	if d.fields["reload"] == "" {
		d.changes, err = parseChanges(d.fields["changes"])
	}
	return d, err
}

// parseChanges reads hash, field and value of each change, each preceded by
// its length as a varint; a value's length is plus 1, and 0 means deleted.
func parseChanges(s string) (all []change, err error) {
	c := cursor{b: []byte(s)}
	for len(c.b) > 0 {
		x := change{hash: string(c.take(c.length())), field: string(c.take(c.length()))}
		if length := c.natural(); length > 0 {
			value := string(c.take(int(length) - 1))
			x.value = &value
		}
		all = append(all, x)
	}
	return all, c.err
}

// checkDeltas checks that the stream's entries follow each other up to the checkpoint, and that each field's
// newest value is the stored one. The stream may lack its front, or all: followers then read everything.
func (f *fold) checkDeltas(writer string) {
	type place struct{ hash, field string }
	newest := map[place]*string{}
	before := ""
	for i, raw := range f.state.deltas {
		d, err := parseDelta(raw)
		if !f.out.must(deltas, err == nil, d.id, "an entry of the stream", err) {
			return
		}
		seq, _, _ := strings.Cut(d.id, "-")
		n, err := strconv.ParseInt(seq, 10, 64)
		previous := fmt.Sprintf("%s %d", d.fields["previous"], n-1)
		found := d.fields["previous"] + " " + d.fields["previous_seq"]
		if i > 0 {
			previous = before
		}
		f.out.must(deltas, err == nil && found == previous, d.id, "behind writer and checkpoint "+previous, "behind "+found)
		before = d.fields["token"] + " " + seq
		if d.fields["reload"] != "" {
			clear(newest)
		}
		for _, c := range d.changes {
			newest[place{c.hash, c.field}] = c.value
		}
	}
	if before == "" {
		return
	}
	equal(f.out, deltas, "last entry", fmt.Sprintf("%s %d", writer, f.state.seq), before)
	for at, value := range newest {
		stored, there := f.state.hashes[at.hash][at.field]
		same := there == (value != nil) && (!there || stored == *value)
		same = same || there && unpaidItem(at.hash, stored) && (value == nil || unpaidItem(at.hash, *value))
		published := "nothing"
		if value != nil {
			published = *value
		}
		f.out.must(deltas, same, say("%s %s", at.hash, at.field), say("%s, as was published", published), say("%q", stored))
	}
}

// unpaidItem reports whether a row is of an item without payoffs, which
// need not be published: a published one ended earlier, and has come again.
func unpaidItem(hash, stored string) bool {
	var v struct{ N *int64 }
	return strings.HasSuffix(hash, ":items") && json.Unmarshal([]byte(stored), &v) == nil && v.N != nil && *v.N == 0
}
