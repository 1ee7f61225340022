package dashboard

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"slices"
)

// The bounds of a search.
const (
	mostSampled  = 512 // rankings
	mostItemPast = 512 // items of all learners
	mostThinned  = 360 // points of an item's past, and of experiments' lifts
)

// Found is the content of /page/find.json: the sampled rankings and the items of a name.
type Found struct {
	Form     int         `json:"form"`
	Name     string      `json:"name"`
	Rankings []Ranking   `json:"rankings"` // of the impression with this id, the latest first
	Items    []FoundItem `json:"items"`    // with this name, one for each learner
}

// FoundItem is an item's row and history. Lists are as long as Times.
type FoundItem struct {
	Learner string     `json:"learner"`
	Row     ItemPage   `json:"row"`   // the last one
	Times   []int64    `json:"times"` // milliseconds since 1970
	First   []*float64 `json:"first"` // see ItemPage; likewise below
	Mean    []*float64 `json:"mean"`
	Low     []*float64 `json:"low"`
	High    []*float64 `json:"high"`
}

// known holds the names that a search finds.
type known struct {
	rankings []Ranking // the latest last
	sampled  map[rankingKey]bool
	items    map[itemKey]*itemPast
}

type rankingKey struct{ learner, id string }

type itemKey struct{ learner, item string }

// itemPast is an item's row, and its history since the worker began.
type itemPast struct {
	row  ItemPage
	last int64 // time of the row
	past thinned[itemPoint]
}

type itemPoint struct {
	at                     int64
	first, mean, low, high float32 // NaN: not known
}

// thinned keeps values over time in bounded memory. When it is full, every second point is dropped, and the interval of later ones doubles.
type thinned[T any] struct {
	points  []T
	every   int // of the values, one is kept
	skipped int
}

func (t *thinned[T]) add(p T) {
	t.every = max(1, t.every)
	if t.skipped++; t.skipped < t.every {
		return
	}
	t.skipped = 0
	if t.points = append(t.points, p); len(t.points) < mostThinned {
		return
	}
	for k := range len(t.points) / 2 {
		t.points[k] = t.points[2*k+1]
	}
	clear(t.points[len(t.points)/2:])
	t.points, t.every = t.points[:len(t.points)/2], 2*t.every
}

// addRankings adds the sampled rankings that are new, and drops those of forgotten impressions.
func (k *known) addRankings(all []shown, now int64) {
	if k.sampled == nil {
		k.sampled = map[rankingKey]bool{}
	}
	for i := range all {
		for _, r := range all[i].Rankings {
			if key := (rankingKey{r.Learner, r.ID}); !k.sampled[key] {
				k.sampled[key] = true
				k.rankings = append(k.rankings, r)
			}
		}
	}
	extra := len(k.rankings) - mostSampled
	k.rankings = slices.DeleteFunc(k.rankings, func(r Ranking) bool {
		extra--
		if extra < 0 && r.Until > now {
			return false
		}
		delete(k.sampled, rankingKey{r.Learner, r.ID})
		return true
	})
}

// addItems adds the rows of a page.
func (k *known) addItems(learners []LearnerPage, now int64) {
	if k.items == nil {
		k.items = map[itemKey]*itemPast{}
	}
	for i := range learners {
		for _, row := range learners[i].ItemRows {
			key := itemKey{learners[i].Name, row.Name}
			p := k.items[key]
			if p == nil {
				k.makeRoom()
				p = &itemPast{}
				k.items[key] = p
			}
			p.row, p.last = row, now
			p.past.add(itemPoint{now, orNaN(row.First), orNaN(row.Mean), float32(row.Low), float32(row.High)})
		}
	}
}

// makeRoom drops the item that has not been shown for longest, if there are too many.
func (k *known) makeRoom() {
	if len(k.items) < mostItemPast {
		return
	}
	var oldest itemKey
	last := int64(math.MaxInt64)
	for key, p := range k.items {
		if p.last < last {
			oldest, last = key, p.last
		}
	}
	delete(k.items, oldest)
}

// find returns all that is known of a name.
func (k *known) find(name string) *Found {
	f := &Found{Form: form, Name: clipName(name), Rankings: []Ranking{}, Items: []FoundItem{}}
	for _, r := range slices.Backward(k.rankings) {
		if r.ID == f.Name {
			f.Rankings = append(f.Rankings, r)
		}
	}
	for key, p := range k.items {
		if key.item == f.Name {
			f.Items = append(f.Items, p.found(key.learner))
		}
	}
	slices.SortFunc(f.Items, func(a, b FoundItem) int { return cmp.Compare(a.Learner, b.Learner) })
	return f
}

func (p *itemPast) found(learner string) FoundItem {
	points := p.past.points
	n := len(points)
	f := FoundItem{Learner: learner, Row: p.row, Times: make([]int64, n), First: make([]*float64, n), Mean: make([]*float64, n),
		Low: make([]*float64, n), High: make([]*float64, n)}
	for at, x := range points {
		f.Times[at] = x.at
		f.First[at], f.Mean[at], f.Low[at], f.High[at] = fromNaN(x.first), fromNaN(x.mean), fromNaN(x.low), fromNaN(x.high)
	}
	return f
}

func orNaN(x *float64) float32 {
	if x == nil {
		return float32(math.NaN())
	}
	return float32(*x)
}

func fromNaN(x float32) *float64 {
	if math.IsNaN(float64(x)) {
		return nil
	}
	return rounded(float64(x))
}

// Find returns all that the page knows of an impression's id, or of an item's name, as served.
func (b *Dashboard) Find(name string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, err := json.Marshal(b.known.find(name))
	if err != nil { // NaN or infinity
		return []byte(`{"form":0}`)
	}
	return content
}

func (b *Dashboard) serveFind(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	zip(b.Find(r.URL.Query().Get("name"))).serve(w, r, "application/json")
}
