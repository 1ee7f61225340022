package checker

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// storedCell is the stored state of an item's features, or of a cell's.
type storedCell struct {
	fed, awaited, paid int64
	x, flying          []int64
	blocks             []paidBlock
	category           category // of the item
}

// paidBlock is the payoffs of selections that began within a time.
type paidBlock struct{ from, to, n, r int64 }

// cellAt is a cell by its item's number.
type cellAt struct {
	item    int64
	segment int32
}

func (s *storedLearner) cellName(at cellAt) string {
	return fmt.Sprintf("%s, segment %d", s.name(at.item), at.segment)
}

// loadCell reads a field "<item>" or "<item>|<segment>". It begins with the number of selections awaited and, if any, the sums of their
// features. By block of event time "<level>:<index>:<payoffs>:<paid>:<sum>:…" follows. If the item has a category, "=" and its name come
// last.
func (s *storedLearner) loadCell(k, w *words) {
	var at cellAt
	k.parts("|", func(k *words) {
		if at.item = k.item(); k.more() {
			at.segment = k.number(0)
		}
	})
	var c storedCell
	for c.awaited = w.int(anyInt); w.more() && !strings.ContainsAny(w.left[0], ":="); {
		c.flying = append(c.flying, w.int(anyInt))
	}
	for w.more() && !strings.HasPrefix(w.left[0], "=") {
		w.parts(":", func(w *words) {
			b := w.bucket()
			block := paidBlock{b.Start(), b.End(), w.int(anyInt), w.int(anyInt)}
			c.blocks = append(c.blocks, block)
			c.fed, c.paid = c.fed+block.n, c.paid+block.r
			for j := 0; w.more(); j++ {
				if j == len(c.x) {
					c.x = append(c.x, 0)
				}
				c.x[j] += w.int(anyInt)
			}
		})
	}
	c.category = category(strings.TrimPrefix(w.text(), "="))
	put(&s.cells, at, c)
}

// loadLinear reads "<level>:<index>": the number of payoffs, the sum of their squares, and the rows of products.
func (s *storedLearner) loadLinear(k, w *words) {
	k.bucket()
	if s.linear == nil {
		s.linear = make([]*big.Int, len(w.left))
		for j := range s.linear {
			s.linear[j] = new(big.Int)
		}
	}
	for _, sum := range s.linear {
		n, ok := new(big.Int).SetString(w.word(), 10)
		if !ok {
			w.fail("no sum")
			return
		}
		sum.Add(sum, n)
	}
}

// asPaid reports whether the blocks hold exactly these payoffs.
func (c *storedCell) asPaid(paid []paidAt) bool {
	blocks := slices.Clone(c.blocks)
	for _, p := range paid {
		at := slices.IndexFunc(blocks, func(b paidBlock) bool { return b.from <= p.began && p.began < b.to })
		if at < 0 {
			return false
		}
		blocks[at].n--
		blocks[at].r -= p.r
	}
	return !slices.ContainsFunc(blocks, func(b paidBlock) bool { return b.n != 0 || b.r != 0 })
}

// checkMet compares when each item was first carried, for learners that use age.
func (lf *learnerFold) checkMet(f *fold) {
	if lf.context.unsure {
		f.out.open(contextCells)
		return
	}
	compareEach(lf, f, contextCells, lf.context.met, byFold(&lf.stored, lf.stored.met), func(i uint32) string {
		return "first time of " + f.items.name(i)
	})
}

// checkContext compares the sums of features with those of payoffs fed, and of impressions with a payoff awaited.
func (lf *learnerFold) checkContext(f *fold) {
	c := lf.context
	if c == nil {
		return
	}
	if !lf.determined(f, lf.always && !lf.loose && lf.imported == nil, contextCells, contextLinear, contextCategories) {
		return
	}
	got := map[cellOf]storedCell{}
	for at, stored := range lf.stored.cells {
		got[cellOf{lf.stored.fold(uint32(at.item)), at.segment}] = stored
	}
	for i := range either(c.cells, got) {
		want, stored := cmp.Or(c.cells[i], &cellFold{x: make([]int64, c.dim())}), got[i]
		same := stored.fed == want.n && stored.paid == want.r && stored.asPaid(want.paid) && (stored.fed == 0 || slices.Equal(stored.x, want.x))
		f.out.must(contextCells, same, say("%s: %s, segment %d", lf.name, f.items.name(i.item), i.segment),
			say("%d payoffs of %d, sums %v", want.n, want.r, want.x), say("%d of %d, %v", stored.fed, stored.paid, stored.x))
	}
	lf.checkMet(f)
	lf.checkAwaited(f)
	lf.checkLinear(f)
	lf.checkCategories(f)
}

// checkAwaited compares an item's awaited selections with the pending impressions.
func (lf *learnerFold) checkAwaited(f *fold) {
	if !f.state.complete {
		return
	}
	want := map[cellAt]string{}
	sums := map[cellAt]*cellFold{}
	for _, e := range lf.pending.selected {
		if !e.hasContext {
			continue
		}
		at := cellAt{e.item(), lf.context.segment(e.context, e.began)}
		if sums[at] == nil {
			sums[at] = &cellFold{x: make([]int64, lf.context.dim())}
		}
		sums[at].n++
		for j, a := range lf.context.age(lf.context.vector(e.context), lf.stored.fold(uint32(at.item)), e.began) {
			sums[at].x[j] += a
		}
	}
	for at, s := range sums {
		want[at] = fmt.Sprint(s.n, s.x)
	}
	got := map[cellAt]string{}
	for at, c := range lf.stored.cells {
		if c.awaited > 0 {
			got[at] = fmt.Sprint(c.awaited, c.flying)
		}
	}
	compareEach(lf, f, contextCells, want, got, lf.stored.cellName)
}

// checkCategories checks that an item's category is the newest given since the item is known, in its cells too.
func (lf *learnerFold) checkCategories(f *fold) {
	c := lf.context
	if c.unsure {
		f.out.open(contextCategories)
		return
	}
	for at, cell := range lf.stored.cells {
		equal(f.out, contextCategories, lf.name+": "+lf.stored.cellName(at), lf.stored.categories[at.item], cell.category)
	}
	compareEach(lf, f, contextCategories, c.categories, byFold(&lf.stored, lf.stored.categories), f.items.name)
}

// checkLinear compares, over all blocks, the products of features and the sums of payoffs by feature.
func (lf *learnerFold) checkLinear(f *fold) {
	c := lf.context
	if c.ended {
		f.out.open(contextLinear)
		return
	}
	if c.payoffs == 0 && len(lf.stored.linear) == 0 {
		return
	}
	want := append([]*big.Int{big.NewInt(c.payoffs)}, c.linear...)
	equal(f.out, contextLinear, lf.name+": payoffs, squares, products by feature", fmt.Sprint(want), fmt.Sprint(lf.stored.linear))
}
