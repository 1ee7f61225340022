package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var errUnacknowledged = errors.New("not acknowledged within serve.timeout")

// statusGone is the status of an answer to a client that has gone.
const statusGone = 499

// asked is the part of an impression that its answer depends on.
type asked struct {
	id      string
	learner string
	named   bool // it names its learner
	time    event.Millis
	hasTime bool
	items   []string // by utility, the highest first; in the given order without utilities; under the rules
	value   []byte
	trace   []task.Header
}

func (s *Service) rank(r *http.Request) answer {
	return s.withBody(r, func(body []byte) answer {
		a, fault := s.read(bare(body))
		if fault != nil {
			return refused(fault, "")
		}
		a.trace = traceOf(r)
		timeout := time.NewTimer(s.cfg.Serve.Timeout)
		defer timeout.Stop()
		known, c, write := s.book.join(a.id, a.value, time.Now())
		if known != nil {
			return s.ranked(a, known)
		}
		defer s.book.leave(c)
		if write {
			s.work.Go(func() { s.give(c, a) })
		}
		return s.await(r.Context(), a, c, timeout.C)
	})
}

// read decodes an impression, and returns its fault.
func (s *Service) read(body []byte) (*asked, *event.Fault) {
	decoder := s.decoders.Get().(*event.Decoder)
	defer s.decoders.Put(decoder)
	var i event.Impression
	if err := decoder.Impression(&i, nil, body); err != nil {
		return nil, faultIn(err)
	}
	l := s.cfg.DefaultLearner()
	if len(i.Learner) > 0 {
		l = s.learners[string(i.Learner)]
	}
	a := &asked{id: string(i.ID), time: i.Time, hasTime: i.HasTime, value: body, named: len(i.Learner) > 0}
	if l != nil {
		a.learner = l.Name
	}
	if f := partition.LearnerRefusal(&i, a.learner, l != nil && l.Utilities != config.Given); f != nil {
		return nil, f
	}
	if c := s.contexts[a.learner]; c != nil {
		if f := c.Read(new(partition.Reading), &i, a.learner); f != nil {
			return nil, f
		}
	}
	var caps []partition.Cap
	if l != nil {
		caps = learners.Caps(l)
	}
	if f := partition.CapsRefusal(&i, caps); f != nil {
		return nil, f
	}
	a.items = byUtility(&i, caps)
	return a, nil
}

// byUtility returns the substitute of a ranking. Rules hold for it, too.
func byUtility(i *event.Impression, caps []partition.Cap) []string {
	n := len(i.Candidates)
	order, utilities, names := make([]int32, n), make([]float64, n), make([][]byte, n)
	for k, c := range i.Candidates {
		order[k], utilities[k], names[k] = int32(k), c.Utility, c.Item
	}
	if i.HasUtilities {
		policy.SortByUtility(order, utilities, names, &policy.Workspace{})
		slices.Reverse(order)
	}
	var rules partition.Rules
	if rules.Read(i, caps) {
		rules.Reorder(order, nil)
	}
	items := make([]string, n)
	for k, at := range order {
		items[k] = string(names[at])
	}
	return items
}

// give writes an impression. It outlives the request, since a late ranking is still one.
func (s *Service) give(c *call, a *asked) {
	err := s.writer.write(context.Background(), event.Impressions, s.now(), []*record{{key: []byte(a.id), value: a.value, headers: a.trace}})
	s.book.written(c, err)
}

// await waits for a ranking. At half the time it searches the log: an impression that was ranked long ago is not ranked again.
func (s *Service) await(ctx context.Context, a *asked, c *call, timeout <-chan time.Time) answer {
	half := time.NewTimer(s.cfg.Serve.Timeout / 2)
	defer half.Stop()
	for {
		select {
		case <-c.done:
			if c.err == nil {
				return s.ranked(a, c.ranking)
			}
			return s.notGiven(a, c.err)
		case <-half.C:
			if a.hasTime {
				s.work.Go(func() { s.lookBack(a) })
			}
		case <-timeout:
			if !s.book.has(c) {
				return s.substitute(a, unwritten, errUnacknowledged)
			}
			return s.substitute(a, late, nil)
		case <-ctx.Done():
			return answer{status: statusGone}
		}
	}
}

// lookBack searches the log for an old ranking, at most until the service ends. After an error the answer is a substitute.
func (s *Service) lookBack(a *asked) {
	if found, err := s.search(s.answers, s.lookBacks, a.id, a.time); err == nil && found != nil {
		s.book.ranked(found)
	}
}

func (s *Service) notGiven(a *asked, err error) answer {
	switch {
	case tooLargeForTopic(err):
		return answer{problem: tooLarge.problem(err.Error())}
	case errors.Is(err, errQueueFull):
		return s.substitute(a, crowded, err)
	}
	return s.substitute(a, unwritten, err)
}

// ranked answers with a logged ranking.
func (s *Service) ranked(a *asked, r *ranking) answer {
	if p := s.conflict(a, r); p != nil {
		return answer{problem: p}
	}
	return answer{status: http.StatusOK, body: rankingBody(r)}
}

// rankingBody returns a ranking, marked as no substitute.
func rankingBody(r *ranking) []byte {
	return append(append([]byte(`{"substitute":false,`), r.value[1:]...), '\n')
}

// conflict returns a problem if a ranking belongs to another impression with the same id; else nil. An impression that names
// a learner may have been ranked by an arm of its experiment, or outside of it, without a user, by the control. For one without a
// learner the worker decides which ranks.
func (s *Service) conflict(a *asked, r *ranking) *problem {
	decoder := s.decoders.Get().(*event.Decoder)
	defer s.decoders.Put(decoder)
	var ranked event.Ranking
	if decoder.Ranking(&ranked, r.value) != nil || !permutes(ranked.Items, a.items) {
		return otherCandidates.problem("")
	}
	by, in := string(ranked.Learner), string(ranked.Decision.Assignment.Experiment)
	if !a.named || by == a.learner || in == a.learner || in == "" && s.outside(a.learner, by) {
		return nil
	}
	return otherLearner.problem(fmt.Sprintf("by %q; use another id for another impression", by))
}

// outside reports whether a learner ranks impressions without a user that name another one: as the control of its experiment by user.
func (s *Service) outside(named, by string) bool {
	x := s.cfg.ExperimentOf(named)
	return x != nil && x.By == config.ByUser && x.Control == by
}

// permutes reports whether a ranking's items are these.
func permutes(ranked [][]byte, items []string) bool {
	if len(ranked) != len(items) {
		return false
	}
	shown := make(map[string]bool, len(items))
	for _, item := range ranked {
		shown[string(item)] = true
	}
	return !slices.ContainsFunc(items, func(item string) bool { return !shown[item] })
}

type substituteRanking struct {
	Substitute bool     `json:"substitute"`
	ID         string   `json:"impression_id"`
	Learner    string   `json:"learner"`
	Items      []string `json:"items"`
}

// substitute answers with the candidates by utility.
func (s *Service) substitute(a *asked, why cause, err error) answer {
	s.substitutes.add(why, err)
	body, err := json.Marshal(substituteRanking{true, a.id, a.learner, a.items})
	if err != nil { // strings never fail
		return answer{problem: unreadableBody.problem(err.Error())}
	}
	return answer{status: http.StatusOK, body: append(body, '\n')}
}

func (s *Service) ranking(r *http.Request) answer {
	return s.within(func() answer { return s.find(r) })
}

func (s *Service) find(r *http.Request) answer {
	id := r.PathValue("id")
	if found := s.book.find(id); found != nil {
		return answer{status: http.StatusOK, body: rankingBody(found)}
	}
	at := r.URL.Query().Get("time")
	if at == "" {
		return answer{problem: unknownRanking.problem("it is not among the recent ones; with the impression's time as the parameter time, " +
			"older ones are looked for in the log")}
	}
	from, ok := event.ParseTime([]byte(at))
	if !ok {
		return answer{problem: faultyTime.problem(fmt.Sprintf("%.64q is not a time as in 2026-11-21T10:00:00.000Z", at))}
	}
	found, err := s.search(r.Context(), s.searches, id, from)
	switch {
	case errors.Is(err, errSearchesBusy):
		return answer{problem: busy.problem("")}
	case err != nil:
		return answer{problem: unreadableLog.problem(err.Error())}
	case found == nil:
		return answer{problem: unknownRanking.problem("it is not in the log from the given time on")}
	}
	return answer{status: http.StatusOK, body: rankingBody(found)}
}
