package data

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

var ErrConfig = errors.New("no such stream")

// Config of a stream. Zero values mean the defaults.
type Config struct {
	Seed        uint64
	Impressions int           // default 200,000
	Candidates  int           // per impression, default 20
	MinRatings  int           // of a drawn user, default 20; at least Candidates
	WindowRatio float64       // P(w) ∝ WindowRatio^(w−1); default 0.7
	Interval    time.Duration // between impressions; default: the span of the data over Impressions
	// Once lets each user pay for a film once: selected films, and those in unanswered impressions, are not drawn for that user again.
	// Users with too few remaining films are not drawn.
	Once bool
}

func (c Config) withDefaults(ratings []Rating) Config {
	c.Impressions = cmp.Or(c.Impressions, 200_000)
	c.Candidates = cmp.Or(c.Candidates, 20)
	c.MinRatings = cmp.Or(c.MinRatings, max(20, c.Candidates))
	c.WindowRatio = cmp.Or(c.WindowRatio, 0.7)
	if c.Interval == 0 && c.Impressions > 0 {
		from, to := Span(ratings)
		c.Interval = max(to.Sub(from)/time.Duration(c.Impressions), time.Millisecond)
	}
	return c
}

type Stream struct {
	config  Config
	start   time.Time
	users   []*user
	gaps    []time.Duration // ascending
	windows []float64       // prefix sums of their distribution
	drawn   *rand.Rand
	next    int
	scratch []int
	err     error
}

type user struct {
	id    string
	films []film
	paid  int // films that were paid for; see Config.Once
}

// film is a film as one user sees it.
type film struct {
	simulate.Candidate
	payoff float64
	away   bool // not to be drawn, see Config.Once
}

type Impression struct {
	ID         string
	Time       time.Time
	Candidates []simulate.Candidate // in random order

	// Hidden from the worker.
	User    string
	Payoffs []float64     // of each candidate, if selected
	Window  int           // in 1..len(Candidates)
	Delay   time.Duration // from the selection to its payoff

	of *user
}

// Select returns the position, in Candidates, of the film that the user selects from a ranking of their positions.
func (im *Impression) Select(order []int) int {
	return simulate.Select(im.Candidates, order, im.Window)
}

// BestPayoff returns the highest payoff of this user over all rankings.
func (im *Impression) BestPayoff() float64 {
	best, _ := simulate.Best(im.Candidates, im.Payoffs, im.Window)
	return best
}

// NewStream prepares the stream, independently of the ratings' order.
func NewStream(ratings []Rating, config Config) (*Stream, error) {
	config = config.withDefaults(ratings)
	if config.Impressions < 1 || config.Candidates < 1 || config.MinRatings < config.Candidates ||
		config.Interval < time.Millisecond {
		return nil, fmt.Errorf("%w: %d impressions of %d candidates, users with %d ratings or more, one in %v",
			ErrConfig, config.Impressions, config.Candidates, config.MinRatings, config.Interval)
	}
	windows, err := admissible.Geometric(config.WindowRatio, config.Candidates)
	if err != nil {
		return nil, errors.Join(ErrConfig, err)
	}
	q := windows.Fold(make([]float64, config.Candidates))
	users := usersOf(ratings, config.MinRatings)
	if len(users) == 0 {
		return nil, fmt.Errorf("%w: no user has %d ratings", ErrConfig, config.MinRatings)
	}
	gaps := Gaps(ratings)
	if len(gaps) == 0 {
		return nil, fmt.Errorf("%w: no user has rated at two different times, so there is no delay to draw", ErrConfig)
	}
	start, _ := Span(ratings)
	return &Stream{
		config: config, start: start, users: users, gaps: gaps, windows: admissible.Prefix(q, q),
		drawn: rand.New(rand.NewPCG(config.Seed, 0)),
	}, nil
}

// Config returns the stream's, with its defaults filled in.
func (s *Stream) Config() Config { return s.config }

// Users returns the number of users who may be drawn.
func (s *Stream) Users() int { return len(s.users) }

// Popularity returns each film's number of ratings.
func Popularity(ratings []Rating) map[string]int {
	popularity := map[string]int{}
	for _, r := range ratings {
		popularity[r.Film]++
	}
	return popularity
}

// Means returns each film's mean payoff over all ratings: the best knowledge without knowing the users.
func Means(ratings []Rating) map[string]float64 {
	means, popularity := map[string]float64{}, Popularity(ratings)
	for _, r := range ratings {
		means[r.Film] += r.Payoff() / float64(popularity[r.Film])
	}
	return means
}

// usersOf returns those with at least so many ratings, by id, each with films in a fixed order, independent of the file's.
func usersOf(ratings []Rating, atLeast int) []*user {
	popularity := Popularity(ratings)
	films := map[string][]film{}
	for _, r := range ratings {
		films[r.User] = append(films[r.User], film{
			Candidate: simulate.Candidate{Item: r.Film, Utility: float64(popularity[r.Film])}, payoff: r.Payoff(),
		})
	}
	var users []*user
	for id, rated := range films {
		if len(rated) < atLeast {
			continue
		}
		slices.SortFunc(rated, func(a, b film) int { return cmp.Compare(a.Item, b.Item) })
		users = append(users, &user{id: id, films: rated})
	}
	slices.SortFunc(users, func(a, b *user) int { return cmp.Compare(a.id, b.id) })
	return users
}

// Gaps returns the times above zero between consecutive ratings of a user, in rising order.
func Gaps(ratings []Rating) []time.Duration {
	times := map[string][]int64{}
	for _, r := range ratings {
		times[r.User] = append(times[r.User], r.Time)
	}
	var gaps []time.Duration
	for _, of := range times {
		slices.Sort(of)
		for i := 1; i < len(of); i++ {
			if gap := of[i] - of[i-1]; gap > 0 {
				gaps = append(gaps, time.Duration(gap)*time.Second)
			}
		}
	}
	slices.Sort(gaps)
	return gaps
}

// Next returns the next impression, which the caller may keep; ok is false at the end.
func (s *Stream) Next() (im *Impression, ok bool) {
	if s.next == s.config.Impressions {
		return nil, false
	}
	n := s.config.Candidates
	who := s.draw()
	if who == nil {
		return nil, false
	}
	im = &Impression{
		ID: "i-" + strconv.Itoa(s.next), Time: s.start.Add(time.Duration(s.next) * s.config.Interval),
		Candidates: make([]simulate.Candidate, n),
		of:         who, User: who.id, Payoffs: make([]float64, n),
		Window: simulate.Window(s.windows, s.drawn.Float64()),
		Delay:  s.gaps[s.drawn.IntN(len(s.gaps))],
	}
	// The first n steps of a Fisher–Yates shuffle.
	for i := range n {
		j := i + s.drawn.IntN(len(s.scratch)-i)
		s.scratch[i], s.scratch[j] = s.scratch[j], s.scratch[i]
		seen := &who.films[s.scratch[i]]
		seen.away = s.config.Once
		im.Candidates[i], im.Payoffs[i] = seen.Candidate, seen.payoff
	}
	s.next++
	return im, true
}

// drawsEach bounds the draws, per user, of users with too many films in unanswered impressions.
const drawsEach = 64

// draw draws a user, and puts the numbers of drawable films into scratch. It returns nil if nobody has enough.
func (s *Stream) draw() *user {
	for range drawsEach * len(s.users) {
		if len(s.users) == 0 {
			break
		}
		at := s.drawn.IntN(len(s.users))
		who := s.users[at]
		s.scratch = s.scratch[:0]
		for i := range who.films {
			if !who.films[i].away {
				s.scratch = append(s.scratch, i)
			}
		}
		if len(s.scratch) >= s.config.Candidates {
			return who
		}
		if len(who.films)-who.paid < s.config.Candidates {
			s.users = slices.Delete(s.users, at, at+1)
		}
	}
	s.err = fmt.Errorf("%w: after %d impressions nobody has %d films that were not paid for", ErrConfig, s.next, s.config.Candidates)
	return nil
}

// Answered reports a selection by its position in Candidates. With Config.Once the others can be drawn again.
func (s *Stream) Answered(im *Impression, selected int) {
	im.of.paid++
	for i, c := range im.Candidates {
		if i != selected {
			at, _ := slices.BinarySearchFunc(im.of.films, c.Item, func(f film, item string) int { return cmp.Compare(f.Item, item) })
			im.of.films[at].away = false
		}
	}
}

// Err returns the reason for an early end.
func (s *Stream) Err() error { return s.err }
