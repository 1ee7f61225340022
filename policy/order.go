package policy

import (
	"bytes"
	"encoding/binary"
	"math"
)

// radixFrom is the length from which a radix sort beats an insertion sort (BenchmarkOrder).
const radixFrom = 48

type entry struct {
	key      uint64
	position int32
}

// SortByUtility fills order with the positions 0..n-1 in increasing utility, ties in the order of the items' bytes. Utilities must
// be finite and items distinct; the slices have equal lengths. It takes O(n) steps for distinct utilities, plus O(bytes) for the
// items of equal ones, and does not allocate once ws has grown to n.
func SortByUtility(order []int32, utilities []float64, items [][]byte, ws *Workspace) {
	n := len(order)
	utilities, items = utilities[:n], items[:n]
	ws.entries = sized(ws.entries, n)
	ws.spare = sized(ws.spare, n)
	sorted := true
	var last uint64
	for i, u := range utilities {
		key := orderedBits(u)
		sorted = sorted && last < key
		last = key
		ws.entries[i] = entry{key, int32(i)}
	}
	if !sorted {
		sortEntries(ws.entries, ws.spare)
		for from, to := nextRun(ws.entries, 0); from < to; from, to = nextRun(ws.entries, to) {
			sortByBytes(ws.entries[from:to], ws.spare[from:to], items, 0)
		}
	}
	for i, e := range ws.entries {
		order[i] = e.position
	}
}

// orderedBits maps numbers to integers in the same order; both zeros are equal.
func orderedBits(u float64) uint64 {
	bits := math.Float64bits(u + 0) // -0 + 0 is +0
	if bits>>63 != 0 {
		return ^bits
	}
	return bits | 1<<63
}

// nextRun returns the first maximal run of two or more entries with equal keys in entries[from:]; empty if there is none.
func nextRun(entries []entry, from int) (start, end int) {
	for from < len(entries) {
		to := from + 1
		for to < len(entries) && entries[to].key == entries[from].key {
			to++
		}
		if to-from > 1 {
			return from, to
		}
		from = to
	}
	return from, from
}

// sortByBytes sorts entries by the items at their positions, which agree in their first depth bytes. Each round skips their common
// prefix, sorts by the next seven bytes, and recurs into equal ones.
func sortByBytes(entries, spare []entry, items [][]byte, depth int) {
	depth = commonPrefix(entries, items, depth)
	for i := range entries {
		entries[i].key = word(items[entries[i].position], depth)
	}
	sortEntries(entries, spare)
	for from, to := nextRun(entries, 0); from < to; from, to = nextRun(entries, to) {
		if entries[from].key&0xff > 7 {
			sortByBytes(entries[from:to], spare[from:to], items, depth+7)
		}
	}
}

// commonPrefix returns the number of bytes in which all items agree, at least depth.
func commonPrefix(entries []entry, items [][]byte, depth int) int {
	first := items[entries[0].position]
	common := len(first)
	for _, e := range entries[1:] {
		item := items[e.position]
		common = min(common, len(item))
		if bytes.Equal(item[depth:common], first[depth:common]) {
			continue
		}
		for k := depth; k < common; k++ {
			if item[k] != first[k] {
				common = k
			}
		}
	}
	return common
}

// word packs the seven bytes from depth on, the first most significant, and below them their number, 8 for more than seven. So an
// item comes before those that it is a prefix of.
func word(item []byte, depth int) uint64 {
	rest := item[depth:]
	if len(rest) >= 8 {
		return binary.BigEndian.Uint64(rest)&^0xff | 8
	}
	var w uint64
	for k, c := range rest {
		w |= uint64(c) << (56 - 8*k)
	}
	return w | uint64(len(rest))
}

// sortEntries sorts stably by key; spare is as long as entries, and overwritten.
func sortEntries(entries, spare []entry) {
	if len(entries) < radixFrom {
		insertionSort(entries)
		return
	}
	radixSort(entries, spare)
}

func insertionSort(entries []entry) {
	for i := 1; i < len(entries); i++ {
		e := entries[i]
		at := i
		for ; at > 0 && entries[at-1].key > e.key; at-- {
			entries[at] = entries[at-1]
		}
		entries[at] = e
	}
}

// radixSort sorts by the bytes of the key, the least significant first (D. Knuth, The Art of Computer Programming, vol. 3, 5.2.5). Bytes
// in which all keys agree are skipped. No branch depends on the data: comparison sorts of random keys mostly wait for mispredicted ones.
func radixSort(entries, spare []entry) {
	var counts [8][256]uint32
	for i := range entries {
		k := entries[i].key
		counts[0][k&0xff]++
		counts[1][k>>8&0xff]++
		counts[2][k>>16&0xff]++
		counts[3][k>>24&0xff]++
		counts[4][k>>32&0xff]++
		counts[5][k>>40&0xff]++
		counts[6][k>>48&0xff]++
		counts[7][k>>56]++
	}
	from, to := entries, spare
	for digit := range counts {
		count, shift := &counts[digit], uint(8*digit)
		if int(count[from[0].key>>shift&0xff]) == len(from) {
			continue
		}
		var next uint32
		for b, c := range count {
			count[b] = next
			next += c
		}
		for i := range from {
			b := uint8(from[i].key >> shift)
			to[count[b]] = from[i]
			count[b]++
		}
		from, to = to, from
	}
	if &from[0] != &entries[0] {
		copy(entries, from)
	}
}
