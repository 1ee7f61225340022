package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// visible is a shell to which inputs end at an offset.
type visible struct {
	Shell
	ends *[event.Inputs]int64
}

func (s visible) Fetch(e Fetch) (Fetched, error) {
	f, err := s.Shell.Fetch(e)
	if err != nil || e.Topic >= event.Inputs {
		return f, err
	}
	end := s.ends[e.Topic]
	for len(f.Records) > 0 && f.Records[len(f.Records)-1].Offset >= end {
		f.Records = f.Records[:len(f.Records)-1]
	}
	f.Next, f.High = min(f.Next, max(end, e.Offset)), min(f.High, end)
	f.LastRead = f.Next == f.High
	return f, nil
}

// TestAhead_OfAnotherHistory: two stores each had an owner. One owner stepped five selections behind the last ranking; the other one ranked
// twice among them. The first store stays. Its owner adopts the first of these rankings, saves that, and dies; the next owner must not wait
// for as many selections again, which do not exist.
func TestAhead_OfAnotherHistory(t *testing.T) {
	d := newDriver(nil)
	ends := [event.Inputs]int64{1, 5, 0}
	d.shell = func(s shell) Shell { return visible{s, &ends} }
	done := func() bool {
		at := d.p.task.Status()
		return at.Phase == Running && d.p.task.run.queues.offsets() == ends && !d.p.task.run.checkpoints.unsaved() && !d.p.task.run.checkpoints.moved &&
			d.p.task.run.lanes.idle()
	}
	run := func() {
		t.Helper()
		require.NoError(t, d.run(2*time.Minute, done))
	}
	d.impress(1, 1, d.w.wall)
	for range 5 {
		d.w.append(event.Selections, []byte("i-1"), []byte(`{"impression_id":"i-1","item":"a"}`))
	}
	ends[event.Selections] = 0
	run()
	before := d.w.store.Copy(0)
	d.w.wall += 5000
	d.start()
	for ends[event.Selections] = range int64(6) {
		run()
	}
	ends[event.Selections] = 5
	stays := d.w.store.Copy(0)

	d.w.store.Restore(0, before)
	d.w.wall -= 5000
	ends[event.Selections] = 2
	d.start()
	run()
	d.impress(2, 2, d.w.wall)
	ends[event.Impressions] = 2
	run()
	ends[event.Selections] = 5
	run()
	ends[event.Impressions] = 3
	run()

	d.w.store.Restore(0, stays)
	ends[event.Impressions] = 2
	d.start()
	require.NoError(t, d.run(10*time.Second, func() bool {
		return string(d.w.store.Copy(0).Hash("meta")["account.impressions.adopted"]) == "1"
	}))
	ends[event.Impressions] = 3
	d.start()
	run()
	account := d.p.task.Status().Account
	require.EqualValues(t, 2, account.Adopted)
	require.EqualValues(t, [event.Inputs]int64{3, 5, 0}, account.Read)

	d.impress(4, 1, d.w.wall)
	ends[event.Impressions] = 4
	run()
	_, err := readAgain(&d.w.broker, farAway)
	require.NoError(t, err, "each header begins at the event time where the last ended, although the first store's was ahead")
}
