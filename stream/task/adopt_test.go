package task

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// saveUnranked: an owner is frozen, the store returns to its last save, and the owner, awake again, saves there that
// it left an impression unranked, whose id it knows. The next owner had forgotten the id, and ranked that impression and two more.
func (d *driver) saveUnranked(t *testing.T) {
	t.Helper()
	zombies := d.w.store.Copy(0)
	zombie := d.p
	d.start()
	d.impress(6, 3, d.w.wall)
	require.NoError(t, d.run(time.Minute, d.idle))
	d.w.store.Restore(0, zombies) // a stalled replica, to which the zombie now saves
	saved := merge([]*segment{{position: zombies.Meta().Rankings, witness: zombies.Meta().RankingsWitness,
		inputs: slices.Clone(zombies.Meta().Inputs)}}, zombie.task.run.owner.fence, zombie.task.acq.metaOf(zombie.task.run.replay.cursor.producers))
	saved.Meta.Inputs[event.Impressions].Offset++
	saved.Meta.Inputs[event.Impressions].Witness = state.Witness{Offset: -1}
	require.NoError(t, shell{d.w, zombie}.Checkpoint(Checkpoint{saved}))
}

// TestReplay_EarlierDecisionsStayUnverified: the owner that finds a decision which the state lacks saves a checkpoint during its replay, and
// dies before it has verified the decision. The next owner finds it too.
func TestReplay_EarlierDecisionsStayUnverified(t *testing.T) {
	d := served(t, nil)
	d.saveUnranked(t)
	before := d.w.store.Copy(0).Meta()
	d.hold = func(e Effect) bool {
		_, is := e.(LookUp)
		return is && d.p.task.run.replay.verifyingEarlier
	}
	d.start()
	require.NoError(t, d.run(time.Minute, func() bool {
		return d.p.task.Phase() == Replaying && d.w.store.Copy(0).Meta().Inputs[event.Impressions].Offset > before.Inputs[event.Impressions].Offset
	}))
	d.hold = nil
	d.start()
	require.NoError(t, d.run(time.Minute, func() bool { return d.p.task.Phase() == Stopped || d.idle() }))
	require.ErrorIs(t, d.p.task.Status().Err, errContradiction)
}
