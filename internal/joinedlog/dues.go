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

// dues are a binary heap by time, and by row at one time: a deadline may be far from the latest.
type dues struct{ all []due }

func (d *dues) less(i, j int) bool {
	return d.all[i].at < d.all[j].at || d.all[i].at == d.all[j].at && d.all[i].row < d.all[j].row
}

func (d *dues) put(x due) {
	d.all = append(d.all, x)
	for i := len(d.all) - 1; i > 0 && d.less(i, (i-1)/2); i = (i - 1) / 2 {
		d.all[i], d.all[(i-1)/2] = d.all[(i-1)/2], d.all[i]
	}
}

// next removes and returns the earliest, if it is before a time.
func (d *dues) next(before event.Millis) (first due, ok bool) {
	if len(d.all) == 0 || d.all[0].at >= before {
		return due{}, false
	}
	first, last := d.all[0], len(d.all)-1
	d.all[0], d.all, ok = d.all[last], d.all[:last], last == 0
	for i, least := 0, 0; !ok; i = least {
		for c := 2*i + 1; c < min(2*i+3, last); c++ {
			if d.less(c, least) {
				least = c
			}
		}
		ok = least == i
		d.all[i], d.all[least] = d.all[least], d.all[i]
	}
	return first, ok
}
