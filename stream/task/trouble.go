package task

import "time"

// trouble is something that keeps failing. Each kind has a backoff of its own: what succeeds beside it must not make
// it try at a rush.
type trouble struct {
	err     error
	backoff backoff
	since   time.Duration
}

// troubles are by what was being done.
type troubles map[string]*trouble

// fails notes a failure, and tells after how long to try again.
func (ts troubles) fails(doing string, err error, now time.Duration) time.Duration {
	tr := ts[doing]
	if tr == nil {
		tr = &trouble{since: now}
		ts[doing] = tr
	}
	tr.err = err
	return tr.backoff.next()
}

// fine notes a success.
func (ts troubles) fine(doing string) { delete(ts, doing) }

// first is what has been failing for the longest time; nil where nothing is.
func (ts troubles) first() error {
	var first *trouble
	for _, tr := range ts {
		if first == nil || tr.since < first.since || tr.since == first.since && tr.err.Error() < first.err.Error() {
			first = tr
		}
	}
	if first == nil {
		return nil
	}
	return first.err
}

// backoff is exponential, from 50 ms to 5 s.
type backoff struct{ d time.Duration }

func (b *backoff) next() time.Duration {
	b.d = min(max(2*b.d, 50*time.Millisecond), 5*time.Second)
	return b.d
}

func (b *backoff) reset() { b.d = 0 }
