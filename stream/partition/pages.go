package partition

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// tick is the unit of event time that buckets are counted in, and the width of the narrowest. Stored pages name buckets: to
// change it is to change the layout.
const tick event.Millis = 10_000

// bucketStart is the first moment of a bucket's last tick, and bucketEnd the last.
func bucketStart(bucket int64) event.Millis { return bucket * tick }

func bucketEnd(bucket int64) event.Millis { return bucketStart(bucket) + tick - 1 }

// How wide a bucket is: a tick up to this many ticks ahead, from there on at most so small a part of the distance.
const (
	narrowTicks = 360
	widthPart   = 256
)

// bucketOf is the bucket that a deadline belongs to, seen from watermark w: the number of the last tick of a span of event time that the
// deadline lies in. A bucket is due when that tick is past, and so are the deadlines of all that lies in it then, while none is
// looked at later than the bucket is wide. Spans are one tick wide up to an hour ahead; from there on their width is a power of two of
// ticks, at most 1/256 of the distance, and they begin at multiples of it: so a month ahead there are some hundred
// spans for each doubling of the distance, and not a quarter of a million of ten seconds each. The same number may be written from
// near and from far; it is one bucket.
func bucketOf(deadline, w event.Millis) int64 {
	at := max(deadline, 0) / tick
	ahead := at - max(w, 0)/tick
	if ahead <= narrowTicks {
		return at
	}
	return at | (int64(1)<<(bits.Len64(uint64(max(ahead/widthPart, 1)))-1) - 1)
}

// pageEntries is how many entries a page takes: so many that what Redis needs for a key costs an entry next to nothing, and so
// few that it keeps a page in its compact encoding (hash-max-listpack-entries, 128 where it is set low and 512 by default), in which
// finding one takes about a microsecond.
const pageEntries = 128

// page is a page of the store with its entries as the machine knows them, those included whose change is not stored yet.
type page struct {
	bucket int64
	put    int32 // entries that were ever put into it
	live   int32 // that lie in it
}

// pages are those in which something lies. Each takes entries until it has had pageEntries of them, so that however many stand in
// one bucket no page is larger than that.
type pages struct {
	all   map[uint32]page
	open  map[int64]uint32 // by bucket: the page that takes the next
	last  uint32           // number of the latest
	begun []state.Page     // since the last seal
}

func newPages() pages { return pages{all: map[uint32]page{}, open: map[int64]uint32{}} }

// load takes a page of the store.
func (g *pages) load(p state.Page, entries int) {
	g.all[p.Number] = page{bucket: p.Bucket, put: int32(entries), live: int32(entries)}
	g.last = max(g.last, p.Number)
	if entries < pageEntries {
		g.open[p.Bucket] = p.Number
	}
}

// bucket is that of a page; noBucket where there is none of the number.
func (g *pages) bucket(number uint32) int64 {
	if p, ok := g.all[number]; ok {
		return p.bucket
	}
	return noBucket
}

// enter puts an entry into a page of the bucket, and returns its number.
func (g *pages) enter(bucket int64) uint32 {
	number, ok := g.open[bucket]
	if !ok {
		number = g.unused()
		g.begun = append(g.begun, state.Page{Number: number, Bucket: bucket})
		g.open[bucket] = number
	}
	p := g.all[number]
	p.bucket = bucket
	p.put++
	p.live++
	g.all[number] = p
	if p.put >= pageEntries {
		delete(g.open, bucket)
	}
	return number
}

// unused is the number of a page that is not there. Numbers are used again after some four billion pages.
func (g *pages) unused() uint32 {
	for {
		g.last++
		if _, used := g.all[g.last]; !used && g.last != noPage {
			return g.last
		}
	}
}

// leave takes an entry out of a page. When the last has left, the store drops the page, so that nothing may be put into it again.
func (g *pages) leave(number uint32) {
	p := g.all[number]
	if p.live--; p.live > 0 {
		g.all[number] = p
		return
	}
	delete(g.all, number)
	if g.open[p.bucket] == number {
		delete(g.open, p.bucket)
	}
}

// seal appends the pages that have begun, those apart that all has left again.
func (g *pages) seal(dst *state.Changes) {
	for _, p := range g.begun {
		if _, there := g.all[p.Number]; there {
			dst.Pages = append(dst.Pages, p)
		}
	}
	g.begun = g.begun[:0]
}
