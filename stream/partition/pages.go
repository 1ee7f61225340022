package partition

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// tick is the unit of buckets in event time, and the width of the narrowest, in milliseconds. Stored pages name buckets: a change of it
// changes the stored layout.
const tick event.Millis = 10_000

// bucketStart is the first moment of a bucket's last tick, and bucketEnd the last.
func bucketStart(bucket int64) event.Millis { return bucket * tick }

func bucketEnd(bucket int64) event.Millis { return bucketStart(bucket) + tick - 1 }

// A bucket is a tick wide up to narrowTicks ahead; from there on at most 1/widthPart of the distance.
const (
	narrowTicks = 360
	widthPart   = 256
)

// bucketOf returns the bucket of a deadline as seen from watermark w: the number of the last tick of its interval. A bucket is due when
// that tick is past; all deadlines in it are past then, by at most its width. Intervals are one tick wide up to an hour ahead. From there
// on their width is a power of two of ticks, at most 1/256 of the distance, and they begin at multiples of it. So a month ahead there are
// some hundred for each doubling of the distance, not a quarter of a million. Seen from near and from far a number means one bucket.
func bucketOf(deadline, w event.Millis) int64 {
	at := max(deadline, 0) / tick
	ahead := at - max(w, 0)/tick
	if ahead <= narrowTicks {
		return at
	}
	return at | (int64(1)<<(bits.Len64(uint64(max(ahead/widthPart, 1)))-1) - 1)
}

// noBucket and noPage stand for ids under which nothing is stored.
const (
	noBucket int64  = -1
	noPage   uint32 = 0
)

// pageEntries bounds a page: so large that a Redis key costs an entry little, and so small that Redis keeps the page in its compact
// encoding (hash-max-listpack-entries, 128 to 512). There, finding an entry takes about a microsecond.
const pageEntries = 128

type page struct {
	bucket int64
	put    int32 // entries ever put into it
	live   int32 // entries in it
}

// pages are the pages with entries. A page takes pageEntries entries over its life, so no page is larger, however many are in a bucket.
type pages struct {
	all   map[uint32]page
	open  map[int64]uint32 // by bucket: the page that takes the next
	last  uint32           // number of the latest page
	begun []state.Page     // since the last seal
}

func newPages() pages { return pages{all: map[uint32]page{}, open: map[int64]uint32{}} }

func (g *pages) load(p state.Page, entries int) {
	g.all[p.Number] = page{bucket: p.Bucket, put: int32(entries), live: int32(entries)}
	g.last = max(g.last, p.Number)
	if entries < pageEntries {
		g.open[p.Bucket] = p.Number
	}
}

func (g *pages) bucket(number uint32) int64 {
	if p, ok := g.all[number]; ok {
		return p.bucket
	}
	return noBucket
}

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

// unused returns the number of a page that does not exist. Numbers come round after some four billion pages.
func (g *pages) unused() uint32 {
	for {
		g.last++
		if _, used := g.all[g.last]; !used && g.last != noPage {
			return g.last
		}
	}
}

// leave takes an entry out of a page. The store drops an empty page, so nothing may be put into it again.
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

func (g *pages) seal(dst *state.Changes) {
	for _, p := range g.begun {
		if _, there := g.all[p.Number]; there {
			dst.Pages = append(dst.Pages, p)
		}
	}
	g.begun = g.begun[:0]
}
