package evaluate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// listener is a learner that keeps the feedback of an impression.
type listener struct {
	delay.Learner
	about      policy.Context
	categories map[policy.Item]string
}

func (*listener) Needs() delay.Needs { return delay.Needs{Context: true} }

func (l *listener) Meet([]policy.Item, int64) {}

func (l *listener) Categorise(i policy.Item, name string) { l.categories[i] = name }

func (l *listener) Decide(candidates []policy.Item, about *policy.Context, _ policy.Key, d *delay.Decision) {
	l.about = *about
	d.Order = d.Order[:0]
	for k := range candidates {
		d.Order = append(d.Order, int32(k))
	}
}

// A target receives segments and categories before it decides, and the segment again with the feedback.
func TestPlayer_Groups(t *testing.T) {
	s, err := features.New(features.Declaration{Segments: []string{"new", "loyal"}, Categories: true})
	require.NoError(t, err)
	l := &listener{categories: map[policy.Item]string{}}
	target := &Target{name: "x", learner: &config.Learner{}, new: func() delay.Learner { return l }, context: partition.NewContext(s, true)}
	p := target.play(0)
	imp := &event.Impression{Candidates: make([]event.Candidate, 2), Context: event.Context{Segment: []byte("loyal"),
		Candidates: []event.CandidateContext{{Category: []byte("news")}, {}}}}
	e := &joinedlog.Event{Decision: joinedlog.Decision{Items: []int32{7, 3}}}
	require.NoError(t, p.decide(&joinedlog.Log{}, e, imp, 0))
	require.Equal(t, policy.Context{Segment: 2, X: []int8{127, 127}}, l.about)
	require.Equal(t, map[policy.Item]string{7: "news"}, l.categories)
	x := &flight{selected: 1, candidates: []policy.Item{7, 3}}
	p.selected(x, 0)
	fb := p.feedback(delay.Feedback{}, x, 0)
	require.EqualValues(t, 2, fb.Segment)
	require.Equal(t, []int8{127}, fb.X)

	require.NoError(t, p.decide(&joinedlog.Log{}, e, &event.Impression{Candidates: make([]event.Candidate, 2)}, 0), "it is not known")
	require.Zero(t, p.feedback(delay.Feedback{}, x, 0).Segment)
}
