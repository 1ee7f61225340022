package joinedlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ErrNothing is wrapped if there is no decision.
var ErrNothing = errors.New("there is no decision to look at")

// Read reads and joins sources, each of one topic in the order of time. It does not close them. The caller closes the Log.
func Read(ctx context.Context, sources []Source, q *Query) (*Log, error) {
	heads := make([]*head, len(sources))
	for i, s := range sources {
		heads[i] = &head{source: s, limits: q.Limits, formats: q.Formats, context: q.Context}
	}
	for {
		log, err := read(ctx, heads, q)
		var d errDisorder
		if !errors.As(err, &d) {
			return log, err
		}
		for _, h := range heads { // all are files
			h.key, h.done = 0, false
			l, ok := h.source.(*lines)
			switch {
			case !ok:
				return nil, err
			case l == d.l:
				err = h.sort(ctx, l)
			default:
				err = l.rewind()
			}
			if err != nil {
				return nil, err
			}
		}
		if q.Again != nil {
			q.Again()
		}
	}
}

func read(ctx context.Context, heads []*head, q *Query) (*Log, error) {
	spool, err := newSpool()
	if err != nil {
		return nil, err
	}
	l := &Log{Group: q.Group, Learner: q.Learner.Name, spool: spool}
	if err := l.fill(ctx, heads, q); err != nil {
		return nil, errors.Join(err, spool.close())
	}
	return l, nil
}

// often is the number of records between calls of Progress.
const often = 4096

func (l *Log) fill(ctx context.Context, heads []*head, q *Query) error {
	var first [event.Topics]string // the first refused record
	j := newJoin(q, l)
	m, err := newMerged(ctx, heads)
	if err != nil {
		return err
	}
	var records int64
	for h := m.first(); h != nil; h = m.first() {
		t := h.source.Topic()
		l.Counts.Records[t]++
		if h.refused != nil {
			if l.Counts.Refused[t]++; l.Counts.Refused[t] == 1 {
				first[t] = fmt.Sprintf("%s: %v", h.source.Place(), h.refused)
			}
		}
		if err := j.take(h); err != nil {
			return err
		}
		if records++; records%often == 0 && q.Progress != nil {
			q.Progress(h.key, records, share(heads))
		}
		if err := m.pass(ctx); err != nil {
			return err
		}
	}
	if err := j.end(); err != nil {
		return err
	}
	for t, n := range l.Counts.Refused {
		if n > 0 && n == l.Counts.Records[t] {
			return fmt.Errorf("none of %d records can be read as one of %s; the first: %s", n, topicNames[t], first[t])
		}
		if n > 0 {
			l.Notes = append(l.Notes, fmt.Sprintf("%d of %d records of %s cannot be read; the first: %s", n, l.Counts.Records[t], topicNames[t], first[t]))
		}
	}
	if l.Counts.Halves > 0 {
		l.Notes = append(l.Notes, plural.N(l.Counts.Halves, "ranking")+" left out: the impression is not there, or the ranking came twice")
	}
	guessed := ""
	if l.Counts.Uncertain > 0 {
		guessed = plural.N(l.Counts.Uncertain, "ranking") + " left out: the order of utilities was not certain"
		l.Notes = append(l.Notes, guessed)
	}
	if l.Counts.Others > 0 && q.Learner.Name == "" {
		l.Notes = append(l.Notes, fmt.Sprintf("%s of other learners than %q; choose with --learner", plural.N(l.Counts.Others, "ranking"), l.Learner))
	}
	switch {
	case len(l.Outcomes) > 0 || q.Accept != nil:
	case guessed != "":
		return fmt.Errorf("%w: %s", ErrNothing, guessed)
	default:
		return fmt.Errorf("%w: of %s and %s none is of learner %q", ErrNothing, plural.N(l.Counts.Records[event.Impressions], "impression"),
			plural.N(l.Counts.Records[event.Rankings], "ranking"), l.Learner)
	}
	return nil
}

func share(heads []*head) float64 {
	var done, all int64
	for _, h := range heads {
		d, a := h.source.Progress()
		done, all = done+d, all+a
	}
	return float64(done) / float64(max(all, 1))
}

var topicNames = [event.Topics]string{event.Impressions: "impressions", event.Selections: "selections", event.Payoffs: "payoffs", event.Rankings: "rankings"}
