package joinedlog

import (
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// due is a deadline of a row, or the time at which a waiting record is dropped.
type due struct {
	at   event.Millis
	slot int32
	row  int32
	id   state.ID
}

// dues are in the order of time. Added ones are mostly the latest.
type dues struct {
	all  []due
	head int
}

func (d *dues) put(x due) {
	if d.head > 1024 && d.head > len(d.all)/2 {
		d.all = append(d.all[:0], d.all[d.head:]...)
		d.head = 0
	}
	d.all = append(d.all, x)
	for i := len(d.all) - 1; i > d.head && d.all[i-1].at > d.all[i].at; i-- {
		d.all[i-1], d.all[i] = d.all[i], d.all[i-1]
	}
}

// next removes and returns the earliest, if it is before a time.
func (d *dues) next(before event.Millis) (due, bool) {
	if d.head == len(d.all) || d.all[d.head].at >= before {
		return due{}, false
	}
	d.head++
	return d.all[d.head-1], true
}
