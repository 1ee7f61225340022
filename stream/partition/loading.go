package partition

import (
	"fmt"

	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/state"
)

// loading collects stored fields, which come in any order.
type loading struct {
	parser fastjson.Parser
	table  []storedLearner
	items  map[*learner][]storedItem
	named  map[*learner][]namedItem
	fields map[*learner][]state.Field
	missed map[*learner][]state.Field
	trials []state.Field
	salted bool
	check  uint32 // of the rest of the state; the observations are used only if it matches
}

func newLoading() *loading {
	return &loading{items: make(map[*learner][]storedItem), named: make(map[*learner][]namedItem),
		fields: make(map[*learner][]state.Field), missed: make(map[*learner][]state.Field)}
}

// add adds a field of a learner's hash.
func (ld *loading) add(l *learner, hash string, f state.Field) (err error) {
	switch hash {
	case ItemsHash:
		var it storedItem
		if it, err = parseItem(&ld.parser, f.Value); err != nil {
			return fmt.Errorf("item %.64q: %w", f.Field, err)
		}
		it.name = f.Field
		ld.items[l] = append(ld.items[l], it)
	case NamesHash:
		ld.named[l], err = parseNames(ld.named[l], f.Field, f.Value)
	case CatalogueHash:
		err = l.items.loadCount(f)
	case missedHash:
		ld.missed[l] = append(ld.missed[l], f)
	default:
		ld.fields[l] = append(ld.fields[l], state.Field{Hash: hash, Field: f.Field, Value: f.Value})
	}
	return err
}
