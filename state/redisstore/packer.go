package redisstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
)

// Kinds of groups, by the key that a group writes.
const (
	hashGroup = iota
	pageGroup
)

// MaxDeltaBytes bounds a checkpoint's published changes. Above it the entry says "reload" instead. So the stream stays below
// Options.DeltaEntries times this.
const MaxDeltaBytes = 256 << 10

// packer turns changes into a script's arguments. It groups them by key and drops elements that later ones replace. After some growth it
// does not allocate.
type packer struct {
	groups []group
	hashes map[string]int32 // hash → index of its group
	pages  map[uint32]int32 // page → index of its group
	elems  []elem
	index  []int32 // open addressing over elems: index plus 1; 0: free

	memory []byte // keys and numbers; slices of it keep the old array after growth
	keys   []argument
	argv   []argument
	args   []any
	delta  []byte
}

type group struct {
	kind       int
	key        []byte
	name       string // of a hash
	head, tail int32  // list of elems
	puts, dels int32
}

type elem struct {
	group, next  int32
	del, publish bool
	field, value []byte
}

// argument is an argument of a command. As a pointer it goes into an interface without an allocation, unlike a []byte.
type argument []byte

func (a *argument) MarshalBinary() ([]byte, error) { return *a, nil }

func newPacker() *packer {
	return &packer{hashes: map[string]int32{}, pages: map[uint32]int32{}}
}

// maxKept bounds the elements of a packer that is kept.
const maxKept = 1 << 16

// reset drops the changes, and all references to the caller's memory. It reports whether the packer is worth keeping.
func (k *packer) reset() bool {
	if len(k.elems) > maxKept || cap(k.memory) > maxKept*32 || cap(k.delta) > 4*MaxDeltaBytes {
		return false
	}
	clear(k.hashes)
	clear(k.pages)
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

func (k *packer) page(prefix string, number uint32) int32 {
	i, ok := k.pages[number]
	if !ok {
		i = k.newGroup(group{kind: pageGroup, key: k.pageKey(prefix, number)})
		k.pages[number] = i
	}
	return i
}

func (k *packer) pageKey(prefix string, number uint32) argument {
	start := len(k.memory)
	k.memory = strconv.AppendUint(append(append(k.memory, prefix...), pageKey...), uint64(number), 10)
	return argument(k.memory[start:len(k.memory):len(k.memory)])
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

// slot returns the index entry of the element, or a free one for it.
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

// maxBucket bounds buckets: up to here a sorted set's scores are exact.
const maxBucket = 1 << 53

func (k *packer) changes(prefix string, c *state.Changes) error {
	for i := range c.Writes {
		w := &c.Writes[i]
		if err := checkHash(w); err != nil {
			return err
		}
		k.put(elem{group: k.hash(prefix, w.Hash), field: w.Field, value: w.Value, del: w.Value == nil, publish: w.Publish})
	}
	for i := range c.Pages {
		if b := c.Pages[i].Bucket; b > maxBucket || b < -maxBucket {
			return fmt.Errorf("bucket %d is out of range", b)
		}
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		k.put(elem{group: k.page(prefix, e.Page), field: e.ID[:], value: e.Value, del: e.Value == nil})
	}
	return nil
}

// checkHash refuses names reserved for this package.
func checkHash(w *state.Write) error {
	switch name := w.Hash; {
	case name == metaKey && reserved(string(w.Field)):
		return fmt.Errorf("field %q of meta is the store's own", w.Field)
	case name == "" || name == pagesKey || name == deltasKey || hasPrefix(name, pageKey):
		return fmt.Errorf("hash %q: the name is the store's own", name)
	}
	return nil
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

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

// published encodes the deltas' entry: for each field the hash's name, the field, and 0 or the value's length plus 1 with the value;
// lengths are varints.
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

// sections adds the groups to keys and arguments in the script's order, and returns the number of groups in each section.
func (k *packer) sections() (counts [4]int64) {
	for i := range k.elems {
		e := &k.elems[i]
		if e.del {
			k.groups[e.group].dels++
		} else {
			k.groups[e.group].puts++
		}
	}
	for section := range counts {
		kind, del := section%2, section/2 == 1 // hashes and pages alternate
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
	if !del {
		n *= 2
	}
	k.argv = append(k.argv, k.number(int64(n)))
	for i := g.head; i >= 0; i = k.elems[i].next {
		e := &k.elems[i]
		if e.del != del {
			continue
		}
		k.argv = append(k.argv, e.field)
		if !del {
			k.argv = append(k.argv, e.value)
		}
	}
}

// command returns a script's arguments. The first key is a plain string, by which the client library routes.
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
