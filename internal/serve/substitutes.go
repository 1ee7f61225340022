package serve

import (
	"log/slog"
	"sync"
	"time"
)

// cause is the reason of a substitute.
type cause string

const (
	late      cause = "late"      // it was written, and its ranking did not come in time
	unwritten cause = "unwritten" // Kafka refused it, or has not acknowledged it in time
	crowded   cause = "crowded"   // as many bytes as are allowed wait to be written
)

var causes = []cause{late, unwritten, crowded}

// substitutes counts answers without a ranking, and logs each cause: at once, and then with its count every sayAgain while it lasts.
type substitutes struct {
	log     *slog.Logger
	metrics *Metrics

	mu    sync.Mutex
	known map[cause]*spell
}

// spell is an interval in which a cause occurs.
type spell struct {
	said   time.Time
	unsaid int
	err    error // the latest
}

const sayAgain = 30 * time.Second

func (s *substitutes) add(c cause, err error) {
	s.metrics.substitutes.WithLabelValues(string(c)).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[c]
	if k == nil {
		k = &spell{said: time.Now()}
		s.known[c] = k
		s.say(c, 1, err)
		return
	}
	k.unsaid, k.err = k.unsaid+1, err
}

// look logs due counts, and forgets causes that are over.
func (s *substitutes) look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, k := range s.known {
		switch {
		case now.Sub(k.said) < sayAgain:
		case k.unsaid == 0:
			delete(s.known, c)
		default:
			s.say(c, k.unsaid, k.err)
			*k = spell{said: now}
		}
	}
}

func (s *substitutes) say(c cause, impressions int, err error) {
	args := []any{"cause", string(c), "impressions", impressions}
	if err != nil {
		args = append(args, "error", err)
	}
	s.log.Warn("impressions were answered by utility, without their rankings", args...)
}
