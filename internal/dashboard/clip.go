package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ranker-worker/ranker-worker/state"
)

// The bounds of a Summary. encode halves them further if it is too large for the store.
const (
	mostPartitions = 128
	mostLearners   = 16
	mostItems      = 16
	mostRankings   = 4
	mostLetters    = 8

	nameRunes  = 48  // of an item, an id, a learner
	cutRunes   = 40  // kept of a longer one, before its digest
	wordsRunes = 240 // of a text for people
)

// clip cuts a text, and makes it valid UTF-8.
func clip(text string, runes int) string {
	if len(text) > 8*runes { // no more is read
		text = text[:8*runes]
	}
	text = strings.ToValidUTF8(text, "�")
	n := 0
	for at := range text {
		if n == runes {
			return text[:at] + "…"
		}
		n++
	}
	return text
}

// clipName cuts a name. Names with the same beginning stay apart by a digest, and a cut name stays as it is.
func clipName(name string) string {
	short := clip(name, nameRunes)
	if utf8.RuneCountInString(short) <= nameRunes {
		return short
	}
	sum := sha256.Sum256([]byte(name))
	return clip(name, cutRunes) + hex.EncodeToString(sum[:3])
}

func first[T any](all []T, n int) []T { return all[:min(n, len(all))] }

// bounded keeps the first entries of each list: 1/share of the bounds.
func (s Summary) bounded(share int) Summary {
	partitions, learners := max(1, mostPartitions/share), max(1, mostLearners/share)
	if extra := len(s.Partitions) - partitions; extra > 0 {
		s.MorePartitions += extra
		s.Partitions = waitingFirst(s.Partitions)
	}
	if extra := len(s.Learners) - learners; extra > 0 {
		s.MoreLearners += extra
	}
	s.Partitions = first(s.Partitions, partitions)
	s.Rankings, s.DeadLetters = first(s.Rankings, mostRankings/share), first(s.DeadLetters, mostLetters/share)
	s.Arms = first(s.Arms, mostArms/share)
	all := s.Learners
	s.Learners = make([]Learner, 0, learners)
	for _, l := range first(all, learners) {
		l.TopItems = first(l.TopItems, mostItems/share)
		s.Learners = append(s.Learners, l)
	}
	return s
}

// nameless returns a summary without samples: without the name of an item, and the detail of a dead letter, which may quote an id.
func (s Summary) nameless() Summary {
	s.DeadLetters = []Letter{}
	for i := range s.Learners {
		s.Learners[i].HoldItem = ""
	}
	return s
}

// waitingFirst returns the partitions that wait for something, and then the others, which a list may leave out.
func waitingFirst[P interface{ waits() bool }](all []P) (sorted []P) {
	for _, waits := range []bool{true, false} {
		for _, p := range all {
			if p.waits() == waits {
				sorted = append(sorted, p)
			}
		}
	}
	return sorted
}

// encode returns the JSON for the store, with shorter lists if it would be too long.
func (s Summary) encode() ([]byte, error) {
	for share := 1; ; share *= 2 {
		b, err := json.Marshal(s.bounded(share))
		switch {
		case err != nil:
			return nil, fmt.Errorf("encode this worker's figures: %w", err)
		case len(b) <= state.MaxShownBytes:
			return b, nil
		case share > mostPartitions:
			return nil, fmt.Errorf("encode this worker's figures: %d bytes", len(b))
		}
	}
}
