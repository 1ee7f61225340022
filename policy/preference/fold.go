package preference

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/policy"
)

// ErrFold says that one Finder cannot take over what another knows: it is of another kind.
var ErrFold = errors.New("preference: the order found cannot be folded")

// Fold implements Finder.
func (s *Sorted) Fold(from Finder, numbers []policy.Item) error {
	f, ok := from.(*Sorted)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrFold, s, from)
	}
	for k := range f.counts.pairs {
		theirs := &f.counts.pairs[k]
		a, b := numbers[theirs.low], numbers[theirs.high]
		if a == b || !learned(max(a, b)) || int(max(a, b)) >= s.items {
			continue
		}
		at, side := s.counts.find(a, b)
		ours := &s.counts.pairs[at]
		for k, n := range theirs.own {
			n = min(n, maxCount-ours.own[side^k])
			if n == 0 {
				continue
			}
			ours.own[side^k] += n
			ours.all[side^k] += n
			s.counts.changes.Note(at, 1<<(side^k))
		}
	}
	s.rebuild()
	return nil
}

// Fold implements Finder.
func (s *Social) Fold(from Finder, numbers []policy.Item) error {
	f, ok := from.(*Social)
	if !ok {
		return fmt.Errorf("%w: %T from %T", ErrFold, s, from)
	}
	for k, theirs := range f.own {
		if theirs.n == 0 {
			continue
		}
		i := numbers[k]
		s.own[i] = s.own[i].add(theirs)
		s.changes.Note(i, 1)
		s.pool(i)
	}
	return nil
}
