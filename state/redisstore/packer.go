package redisstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
)

// The kinds of groups: what one key of the checkpoint script is for.
const (
	hashGroup = iota
	shardGroup
	bucketGroup
)

// MaxDeltaBytes bounds what one checkpoint publishes; above it the entry says "reload" instead, so that the stream
// stays below Options.DeltaEntries times this.
const MaxDeltaBytes = 256 << 10

// packer turns changes into the arguments of a script. It groups them by key and drops what later elements replace,
// without an allocation of its own once it has grown.
type packer struct {
	placement placement // of the shards

	groups  []group
	hashes  map[string]int32 // index of a hash's group
	buckets map[int64]int32
	shards  []int32 // index of a shard's group plus 1; 0: none
	elems   []elem
	index   []int32 // open addressing over elems: index plus 1; 0: free

	memory []byte // keys and numbers; when it grows, what points into it keeps the memory it has
	keys   []argument
	argv   []argument
	args   []any
	delta  []byte
}

// group is what goes to one key.
type group struct {
	kind       int
	bucket     int64
	key        []byte
	name       string // of a hash
	head, tail int32  // list of elems
	puts, dels int32
}

// elem is one field of a hash, or one id of a bucket.
type elem struct {
	group, next  int32
	del, publish bool
	field, value []byte
}

// argument is an argument of a command. As a pointer it goes into an interface without an allocation, which a
// []byte does not.
type argument []byte

// MarshalBinary lets the client library write it.
func (a *argument) MarshalBinary() ([]byte, error) { return *a, nil }

func newPacker() *packer {
	return &packer{hashes: map[string]int32{}, buckets: map[int64]int32{}, shards: make([]int32, Shards)}
}

// maxKept is how many elements a packer may have grown to and yet be kept.
const maxKept = 1 << 16

// reset forgets the changes, and everything of the caller's that was pointed at. It reports whether the packer is
// worth keeping.
func (k *packer) reset() bool {
	if len(k.elems) > maxKept || cap(k.memory) > maxKept*32 || cap(k.delta) > 4*MaxDeltaBytes {
		return false
	}
	clear(k.shards)
	clear(k.hashes)
	clear(k.buckets)
	clear(k.groups)
	clear(k.elems)
	clear(k.index)
	clear(k.keys)
	clear(k.argv)
	clear(k.args)
	k.groups, k.elems = k.groups[:0], k.elems[:0]
	k.memory, k.keys, k.argv, k.args, k.delta = k.memory[:0], k.keys[:0], k.argv[:0], k.args[:0], k.delta[:0]
	return true
}

func (k *packer) newGroup(g group) int32 {
	g.head, g.tail = -1, -1
	k.groups = append(k.groups, g)
	return int32(len(k.groups) - 1)
}

func (k *packer) hash(prefix, name string) int32 {
	i, ok := k.hashes[name]
	if !ok {
		start := len(k.memory)
		k.memory = append(append(k.memory, prefix...), name...)
		i = k.newGroup(group{kind: hashGroup, name: name, key: k.memory[start:len(k.memory):len(k.memory)]})
		k.hashes[name] = i
	}
	return i
}

func (k *packer) shard(prefix string, id []byte) int32 {
	n := k.placement.shard(id)
	if i := k.shards[n]; i != 0 {
		return i - 1
	}
	i := k.newGroup(group{kind: shardGroup, key: k.shardKey(prefix, n)})
	k.shards[n] = i + 1
	return i
}

// shardKey adds a shard's key to the packer's memory.
func (k *packer) shardKey(prefix string, shard uint64) argument {
	start := len(k.memory)
	k.memory = appendShard(append(append(k.memory, prefix...), shardKey...), shard)
	return argument(k.memory[start:len(k.memory):len(k.memory)])
}

func (k *packer) bucket(prefix string, bucket int64) int32 {
	i, ok := k.buckets[bucket]
	if !ok {
		start := len(k.memory)
		k.memory = strconv.AppendInt(append(append(k.memory, prefix...), bucketKey...), bucket, 10)
		i = k.newGroup(group{kind: bucketGroup, bucket: bucket, key: k.memory[start:len(k.memory):len(k.memory)]})
		k.buckets[bucket] = i
	}
	return i
}

// put adds an element, or replaces the one of the same group and field.
func (k *packer) put(e elem) {
	if 2*(len(k.elems)+1) > len(k.index) {
		k.grow()
	}
	slot := k.slot(e.group, e.field)
	if i := k.index[slot]; i != 0 {
		old := &k.elems[i-1]
		e.next = old.next
		*old = e
		return
	}
	e.next = -1
	k.elems = append(k.elems, e)
	i := int32(len(k.elems) - 1)
	k.index[slot] = i + 1
	g := &k.groups[e.group]
	if g.head < 0 {
		g.head = i
	} else {
		k.elems[g.tail].next = i
	}
	g.tail = i
}

// slot is where the index has the element, or where it would go.
func (k *packer) slot(group int32, field []byte) int {
	mask := len(k.index) - 1
	h := xxhash.Sum64(field) ^ uint64(group)*0x9e3779b97f4a7c15
	for slot := int(h>>16) & mask; ; slot = (slot + 1) & mask {
		i := k.index[slot]
		if i == 0 || k.elems[i-1].group == group && bytes.Equal(k.elems[i-1].field, field) {
			return slot
		}
	}
}

func (k *packer) grow() {
	k.index = make([]int32, max(1024, 2*len(k.index)))
	for i := range k.elems {
		k.index[k.slot(k.elems[i].group, k.elems[i].field)] = int32(i + 1)
	}
}

// maxBucket bounds buckets: a sorted set's scores are exact up to here.
const maxBucket = 1 << 53

// changes groups what a checkpoint changes.
func (k *packer) changes(prefix string, c *state.Changes) error {
	for i := range c.Writes {
		w := &c.Writes[i]
		if err := checkHash(w); err != nil {
			return err
		}
		k.put(elem{group: k.hash(prefix, w.Hash), field: w.Field, value: w.Value, del: w.Value == nil, publish: w.Publish})
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		k.put(elem{group: k.shard(prefix, e.ID), field: e.ID, value: e.Value, del: e.Value == nil})
	}
	for i := range c.Due {
		d := &c.Due[i]
		if d.Bucket > maxBucket || d.Bucket < -maxBucket {
			return fmt.Errorf("bucket %d of the expiry index is out of range", d.Bucket)
		}
		k.put(elem{group: k.bucket(prefix, d.Bucket), field: d.ID, del: d.Remove})
	}
	return nil
}

// checkHash refuses names that are this package's own.
func checkHash(w *state.Write) error {
	switch name := w.Hash; {
	case name == metaKey && reserved(string(w.Field)):
		return fmt.Errorf("field %q of meta is the store's own", w.Field)
	case name == "" || name == dueKey || name == deltasKey || hasPrefix(name, bucketKey) || hasPrefix(name, shardKey):
		return fmt.Errorf("hash %q: the name is the store's own", name)
	}
	return nil
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// text adds a string to the packer's memory.
func (k *packer) text(s string) argument {
	start := len(k.memory)
	k.memory = append(k.memory, s...)
	return argument(k.memory[start:len(k.memory):len(k.memory)])
}

func (k *packer) number(n int64) argument {
	start := len(k.memory)
	k.memory = strconv.AppendInt(k.memory, n, 10)
	return argument(k.memory[start:len(k.memory):len(k.memory)])
}

// published encodes the deltas' entry: for each field the hash's name, the field, and 0 or the value's length plus 1
// with the value; lengths are varints.
func (k *packer) published() (blob []byte, tooLarge bool) {
	b := k.delta[:0]
	for i := range k.elems {
		e := &k.elems[i]
		if !e.publish {
			continue
		}
		name := k.groups[e.group].name
		b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
		b = append(binary.AppendUvarint(b, uint64(len(e.field))), e.field...)
		if e.del {
			b = append(b, 0)
		} else {
			b = append(binary.AppendUvarint(b, uint64(len(e.value))+1), e.value...)
		}
		if len(b) > MaxDeltaBytes {
			k.delta = b
			return nil, true
		}
	}
	k.delta = b
	return b, false
}

// sections adds the groups to keys and arguments in the order that the script wants them, and returns how many groups
// there are in each section.
func (k *packer) sections() (counts [6]int64) {
	for i := range k.elems {
		e := &k.elems[i]
		if e.del {
			k.groups[e.group].dels++
		} else {
			k.groups[e.group].puts++
		}
	}
	for section := range counts {
		kind, del := section%2, section/2 == 1 // hashes and shards take turns
		if section >= 4 {
			kind, del = bucketGroup, section == 5
		}
		for i := range k.groups {
			g := &k.groups[i]
			n := g.puts
			if del {
				n = g.dels
			}
			if g.kind != kind || n == 0 {
				continue
			}
			counts[section]++
			k.keys = append(k.keys, g.key)
			k.section(g, n, del)
		}
	}
	return counts
}

func (k *packer) section(g *group, n int32, del bool) {
	withValues := g.kind != bucketGroup && !del
	if withValues {
		n *= 2
	}
	k.argv = append(k.argv, k.number(int64(n)))
	if g.kind == bucketGroup {
		k.argv = append(k.argv, k.number(g.bucket))
	}
	for i := g.head; i >= 0; i = k.elems[i].next {
		e := &k.elems[i]
		if e.del != del {
			continue
		}
		k.argv = append(k.argv, e.field)
		if withValues {
			k.argv = append(k.argv, e.value)
		}
	}
}

// command assembles the arguments of a script: the first key is a plain string, for the client library to route by.
func (k *packer) command(first string) []any {
	k.args = append(k.args, nil, nil, len(k.keys)+1, first)
	for i := range k.keys {
		k.args = append(k.args, &k.keys[i])
	}
	for i := range k.argv {
		k.args = append(k.args, &k.argv[i])
	}
	return k.args
}
