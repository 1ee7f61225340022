package preference

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/policy"
)

// ErrMerge is wrapped by errors about a Finder of another kind.
var ErrMerge = errors.New("preference: the order found cannot be merged")

func (s *Sorted) Merge(from Finder, numbers []policy.Item) error {
	f, ok := from.(*Sorted)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrMerge, s, from)
	}
	for k := range f.counts.pairs {
		theirs := &f.counts.pairs[k]
		a, b := numbers[theirs.low], numbers[theirs.high]
		if a == b || !tracked(max(a, b)) || int(max(a, b)) >= s.items {
			continue
		}
		own := f.counts.sums.Own(int32(k))
		s.counts.add(a, b, own.side(0))
		s.counts.add(b, a, own.side(1))
	}
	s.Loaded()
	return nil
}

func (s *Social) Merge(from Finder, numbers []policy.Item) error {
	f, ok := from.(*Social)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrMerge, s, from)
	}
	for k := range int32(f.sums.Len()) {
		if theirs := f.sums.Own(k); theirs.n > 0 {
			s.sums.AddOwn(numbers[k], theirs, 1)
		}
	}
	return nil
}
