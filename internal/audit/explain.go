package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/replay"
)

var ErrNotRanked = errors.New("no ranking of this impression stands in the topics")

// Explanation explains one ranking.
type Explanation struct {
	ID         string         `json:"impression_id"`
	Partition  int32          `json:"partition"`
	Offset     int64          `json:"offset"` // of the impression
	Time       string         `json:"time"`
	Learner    string         `json:"learner"`
	Experiment string         `json:"experiment,omitempty"`
	Arm        string         `json:"arm,omitempty"`
	Identical  bool           `json:"identical"`           // the replay made the same ranking
	NotExact   string         `json:"not_exact,omitempty"` // reason if it need not be the same
	Items      []string       `json:"items"`               // as shown
	Payoffs    int64          `json:"payoffs"`             // fed to the learner, of all partitions
	Sources    []Source       `json:"sources,omitempty"`   // positions read of other partitions
	Ranking    *admin.Ranking `json:"ranking,omitempty"`   // with reasons; nil if the state is unknown
}

// Source is the position up to which a partition was read.
type Source struct {
	Partition  int32 `json:"partition"`
	Checkpoint int64 `json:"checkpoint"`
}

// Explain replays the topics up to an impression's last ranking, and explains it. An id may return once it is forgotten. at is called with
// the time of each ranking made, for progress.
func (t *Topics) Explain(ctx context.Context, id string, at func(event.Millis)) (*Explanation, error) {
	var found *Explanation
	var failed error
	decoder := event.NewFormatsDecoder(event.Limits{MaxCandidates: t.machine.MaxCandidates, MaxRecordBytes: t.machine.MaxRecordBytes}, t.machine.Formats)
	decoder.WithContext()
	_, err := t.Replay(ctx, &replay.Config{
		Before: func(m *replay.Moment) {
			if string(m.Ranking.Key) == id && failed == nil {
				found, failed = t.explain(m, decoder)
			}
		},
		Made: func(m replay.Made) bool {
			at(m.Time)
			if m.ID != id {
				return failed != nil
			}
			if found == nil {
				found = &Explanation{}
				failed = t.describeInto(found, m.Ranking)
			}
			found.Partition, found.Offset, found.Identical, found.NotExact = m.Partition, m.Impression, m.Same, m.NotExact
			return true
		},
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	switch {
	case found == nil && len(t.bases) > 0:
		return nil, fmt.Errorf("%w after the base: %q", ErrNotRanked, id)
	case found == nil:
		return nil, fmt.Errorf("%w: %q", ErrNotRanked, id)
	}
	return found, nil
}

func (t *Topics) describeInto(x *Explanation, r *replay.Ranking) error {
	var says event.Ranking
	if err := event.NewDecoder(event.Limits{}).Ranking(&says, r.Value); err != nil {
		return err
	}
	x.ID, x.Learner, x.Time = string(says.ID), string(says.Learner), time.UnixMilli(says.Time).UTC().Format(time.RFC3339Nano)
	x.Experiment, x.Arm = says.Decision.Assignment.Experiment, says.Decision.Assignment.Arm
	for _, item := range says.Items {
		x.Items = append(x.Items, string(item))
	}
	return nil
}

// explain explains the next ranking.
func (t *Topics) explain(m *replay.Moment, decoder *event.Decoder) (*Explanation, error) {
	x := &Explanation{}
	if err := t.describeInto(x, m.Ranking); err != nil {
		return nil, err
	}
	var says event.Ranking
	if err := event.NewDecoder(event.Limits{}).Ranking(&says, m.Ranking.Value); err != nil {
		return nil, err
	}
	l := t.cfg.Learner(x.Learner)
	if l == nil {
		return x, nil
	}
	for _, s := range m.Machine.Learners() {
		if s.Name == x.Learner {
			x.Payoffs = s.Fed
		}
	}
	for p, s := range m.Sources {
		if s.Known && int32(p) != m.Partition {
			x.Sources = append(x.Sources, Source{int32(p), s.Seq})
		}
	}
	var imp event.Impression
	rec := m.Impression
	if err := decoder.ImpressionIn(&imp, rec.Key, event.Content{Form: t.machine.Formats.Of(event.Impressions, rec.Value), Value: rec.Value, Plain: rec.Plain}); err != nil {
		return x, nil // the configuration refuses it now
	}
	var candidates []admin.Candidate
	for k, c := range imp.Candidates {
		candidates = append(candidates, admin.Candidate{Item: string(c.Item), Utility: c.Utility, Plain: !imp.HasUtility(k)})
	}
	var err error
	x.Ranking, err = admin.Explain(l, &partition.Offline{Machine: m.Machine}, m.Partition, candidates, &imp, policy.Key(says.Decision.Seed))
	return x, err
}
