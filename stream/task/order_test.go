package task

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// pausing is a partition of which 20 impressions are ranked and selected from, with its store as of then. After that no impression comes,
// and thousands of payoffs do: for unknown impressions, and late ones for those that were ranked, which say themselves that
// they are not late.
func pausing(t *testing.T) (d *driver, restore func()) {
	rng := rand.New(rand.NewPCG(1, 2))
	d = newDriver(func(c *Config) { *c = kinds[0].simConfig(soon, rng) })
	d.impress(1, 20, d.w.wall)
	require.NoError(t, d.run(time.Minute, d.idle))
	began := d.w.wall
	first := event.AppendTime(nil, began)
	for i := range 20 {
		id := fmt.Sprintf("i-%d", 1+i)
		d.w.append(event.Selections, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, id))
	}
	require.NoError(t, d.run(time.Minute, d.idle))
	copied := d.w.store.Copy(0)
	for i := range 16_000 { // as many payoffs as selections, in turns
		id := fmt.Sprintf("i-%d", 1_000+i)
		d.w.append(event.Payoffs, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","payoff":0.5}`, id))
		d.w.pass(time.Millisecond)
		d.w.append(event.Selections, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"a"}`, id))
		d.w.pass(time.Millisecond)
		if since := d.w.wall - began; since > 20_500 && since < 26_000 && i%5 == 0 {
			id = fmt.Sprintf("i-%d", 1+i/5%20)
			d.w.append(event.Payoffs, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","payoff":0.5,"time":"%s"}`, id, first))
		}
		if i%5 == 0 {
			require.NoError(t, d.run(time.Minute, func() bool { return d.stepped(event.Payoffs) == int64(len(d.w.inputs[event.Payoffs])) }))
		}
	}
	require.NoError(t, d.run(time.Minute, d.idle))
	return d, func() { d.w.store.Restore(0, copied) }
}

// TestOrder_OutlastsAPause: however long no impression comes, a state that is restored behind the pause comes to the outcomes of the first run.
func TestOrder_OutlastsAPause(t *testing.T) {
	d, restore := pausing(t)
	stored := len(d.w.store.Copy(0).Hash("meta")["steps"])
	d.impress(21, 1, d.w.wall)
	ended := func() bool {
		a := d.p.task.Status().Account
		return d.idle() && a.Payoffs.Parked == 0 && a.Impressions.Pending == 0
	}
	require.NoError(t, d.run(time.Minute, ended))
	before := d.p.task.Status().Account
	restore()
	d.start()
	require.NoError(t, d.run(10*time.Minute, ended))
	require.EqualValues(t, 20, before.Impressions.Expired)
	require.Greater(t, before.Payoffs.Late, int64(20))
	require.Equal(t, before.Payoffs, d.p.task.Status().Account.Payoffs)
	require.Equal(t, before.Impressions, d.p.task.Status().Account.Impressions)
	require.Less(t, stored, 9<<10, "what is stored of the order is small")
}
