package task

const lookingUp = "looking up ids"

// lookUp asks the store for the ids at the front of each queue that need it.
func (t *Task) lookUp() {
	r := t.run
	l := &r.lookups
	if l.flying || r.full(t.now.Mono) || l.held() >= maxFoundBytes {
		return
	}
	l.clear()
	for i := range r.queues {
		q := &r.queues[i]
		for k := q.head; k < len(q.items) && k-q.head < maxLookUp; k++ {
			if it := &q.items[k]; it.batch == 0 && !r.known(it) {
				l.want(q.topic, &it.Record)
			}
		}
	}
	if len(l.ids) == 0 {
		return
	}
	l.flying = true
	number := l.begin(len(l.refs))
	low, refs := r.owner.fence.Seq, l.refs
	send(t, callTimeout, LookUp{IDs: l.ids, Room: maxLookUpBytes}, func(found LookedUp, err error) {
		l.flying = false
		if err != nil {
			r.stepped(number, len(refs))
			l.flying = true
			t.failed(lookingUp, err, func() { l.flying = false })
			return
		}
		t.troubles.fine(lookingUp)
		if !t.verify(found.Fence, low) {
			return
		}
		t.obs.LookedUp += int64(len(found.Values))
		r.looked(number, refs, found.Values, t.now.Mono)
	})
}
