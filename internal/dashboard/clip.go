package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"

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

func first[T any](all []T, n int) []T { return all[:min(n, len(all))] }

// bounded keeps the first entries of each list: 1/share of the bounds.
func (s Summary) bounded(share int) Summary {
	partitions, learners := max(1, mostPartitions/share), max(1, mostLearners/share)
	s.Partitions = waitingFirst(s.Partitions, partitions)
	for _, one := range s.Partitions[min(partitions, len(s.Partitions)):] {
		s.MorePartitions++
		s.MoreRunning += one.running()
		for topic, n := range one.Lag {
			s.MoreLag[topic] += n
		}
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

// waitingFirst returns partitions of which the first n are listed: if that leaves some out, these are the ones that wait for nothing.
func waitingFirst(all []Partition, n int) []Partition {
	if len(all) <= n {
		return all
	}
	var waiting, others []Partition
	for _, p := range all {
		if p.Waits != "" {
			waiting = append(waiting, p)
		} else {
			others = append(others, p)
		}
	}
	return append(waiting, others...)
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
