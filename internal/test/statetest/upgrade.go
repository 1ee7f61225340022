package statetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// upgrades are made up: a value begins with its version, and each upgrade writes the next one. The upgrade to 3 deletes fields "old".
func upgrades() state.Upgrades {
	one := func(to byte) state.Upgrade {
		value := func(old []byte) ([]byte, error) {
			switch {
			case len(old) == 0 || old[0] != to && old[0] != to-1:
				return nil, fmt.Errorf("%.20q is of neither version", old)
			default:
				return append([]byte{to}, old[1:]...), nil
			}
		}
		return state.Upgrade{
			Hashes: func(meta []state.Field) ([]string, error) {
				for _, f := range meta {
					if string(f.Field) == "hashes" {
						return strings.Split(string(f.Value[1:]), ","), nil
					}
				}
				return nil, errors.New("no list of hashes")
			},
			Field: func(f state.Field) ([]byte, error) {
				if to == '3' && string(f.Field) == "old" {
					return nil, nil
				}
				return value(f.Value)
			},
			Entry: value,
		}
	}
	return state.Upgrades{1: one('2'), 2: one('3')}
}

// dying is a client that dies at a checkpoint: before it, or after it is stored and before the answer.
type dying struct {
	state.AdminStore
	left   int
	stored bool
}

var errDied = errors.New("the process died")

func (d *dying) Checkpoint(ctx context.Context, p int32, c *state.Checkpoint) error {
	if d.left--; d.left >= 0 {
		return d.AdminStore.Checkpoint(ctx, p, c)
	}
	if d.stored && d.left == -1 {
		return errors.Join(errDied, d.AdminStore.Checkpoint(ctx, p, c))
	}
	return errDied
}

// ofVersion1 stores a state whose upgrade takes several checkpoints, and returns its owner.
func (w *world) ofVersion1() *owner {
	o := w.begin(0)
	large := strings.Repeat("x", 300<<10)
	var c state.Changes
	c.Writes = append(c.Writes, write("meta", "hashes", "1feed:items,gone:queue,empty"), write("gone:queue", "old", "1"),
		write("gone:queue", "7", "1 seven"))
	for i := range 8 {
		c.Writes = append(c.Writes, write("feed:items", fmt.Sprint(i), "1"+large))
	}
	for i := range 40 {
		c.Entries = append(c.Entries, entry(fmt.Sprintf("%d/%d", i/10, i), "1"))
	}
	c.Entries = append(c.Entries, entry("3/x", "1"+large), entry("4/y", "1"+large))
	o.save(c)
	return o
}

// versions returns the stored version, the number of values, and their versions.
func (w *world) versions(k state.AdminStore) (layout, values int, of string) {
	m, fields, pages, err := k.ViewAll(w.ctx, 0, []string{"feed:items", "gone:queue", "empty"})
	require.NoError(w, err)
	found := map[byte]bool{}
	note := func(v []byte) { found[v[0]], values = true, values+1 }
	for _, f := range fields {
		note(f.Value)
	}
	for _, page := range pages {
		for _, v := range page.Entries {
			note(v)
		}
	}
	for v := byte('0'); v <= '9'; v++ {
		if found[v] {
			of += string(v)
		}
	}
	return m.Layout, values, of
}

// upgradeSurvivesACrashAnywhere: after each checkpoint, all values are of the stored version, or the version is marked.
func upgradeSurvivesACrashAnywhere(w *world, k state.AdminStore) {
	const all = 1 + 2 + 8 + 42
	mixed, whole := 0, map[int]bool{}
	for _, stored := range []bool{false, true} {
		for left := 0; ; left++ {
			require.NoError(w, k.Drop(w.ctx, 0, ""))
			w.ofVersion1()
			err := upgrades().Run(w.ctx, &dying{k, left, stored}, 0, 3)
			w.hook()
			layout, values, of := w.versions(k)
			switch layout {
			case -2:
				require.Contains(w, []string{"1", "12", "2"}, of)
				require.Equal(w, all, values)
			case -3:
				require.Contains(w, []string{"2", "23", "3"}, of)
			default:
				whole[layout] = true
				require.Equal(w, fmt.Sprint(layout), of, "after %d checkpoints", left)
			}
			if len(of) == 2 {
				mixed++
			}
			if err == nil {
				break
			}
			require.ErrorIs(w, err, errDied)
			require.NoError(w, upgrades().Run(w.ctx, k, 0, 3))
			w.hook()
			layout, values, of = w.versions(k)
			require.Equal(w, []any{3, all - 1, "3"}, []any{layout, values, of}, "after %d checkpoints", left)
		}
	}
	require.Greater(w, mixed, 4, "crashes that left values of two versions")
	require.Equal(w, map[int]bool{1: true, 2: true, 3: true}, whole)
}

// upgradeIsRefused if the version is higher, or an upgrade is missing. It changes nothing, not even the owner.
func upgradeIsRefused(w *world, k state.AdminStore) {
	require.ErrorIs(w, upgrades().Run(w.ctx, k, 0, 3), state.ErrNoState)
	o := w.ofVersion1()
	for to, with := range map[int]state.Upgrades{0: upgrades(), 2: {}, 4: upgrades(), 3: {1: upgrades()[1]}} {
		require.ErrorIs(w, with.Run(w.ctx, k, 0, to), state.ErrVersion)
		w.hook()
	}
	require.NoError(w, state.Upgrades{}.Run(w.ctx, k, 0, 1), "there is nothing to do")
	o.save(state.Changes{})
	layout, _, of := w.versions(k)
	require.Equal(w, []any{1, "1"}, []any{layout, of})

	require.ErrorIs(w, upgrades().Run(w.ctx, &dying{AdminStore: k, left: 2}, 0, 2), errDied)
	require.ErrorIs(w, upgrades().Run(w.ctx, k, 0, 1), state.ErrVersion, "a lower version does not go on with it")
	require.NoError(w, upgrades().Run(w.ctx, k, 0, 2))
}

// usurped is a store whose partition another worker takes over at a checkpoint.
type usurped struct {
	state.AdminStore
	left int
	take func()
}

func (u *usurped) Checkpoint(ctx context.Context, p int32, c *state.Checkpoint) error {
	if u.left--; u.left == -1 {
		u.take()
	}
	return u.AdminStore.Checkpoint(ctx, p, c)
}

// upgradeIsFenced: the old owner cannot write, and an upgrade ends once another one begins.
func upgradeIsFenced(w *world, k state.AdminStore) {
	o := w.ofVersion1()
	var other *owner
	err := upgrades().Run(w.ctx, &usurped{k, 2, func() { other = w.takeOver(0) }}, 0, 2)
	require.ErrorIs(w, err, state.ErrFenced)
	require.ErrorIs(w, o.send(o.make(state.Changes{})), state.ErrFenced)
	require.Equal(w, -2, other.meta.Layout, "whoever takes it over sees the mark")
	require.NoError(w, upgrades().Run(w.ctx, k, 0, 2))
	w.hook()
	require.ErrorIs(w, other.send(other.make(state.Changes{})), state.ErrFenced)
	layout, _, of := w.versions(k)
	require.Equal(w, []any{2, "2"}, []any{layout, of})
}

// upgradeKeepsTheCut: of Meta only version, token and sequence change.
func upgradeKeepsTheCut(w *world, k state.AdminStore) {
	o := w.ofVersion1()
	require.NoError(w, upgrades().Run(w.ctx, k, 0, 3))
	w.hook()
	m, _, pages, err := k.ViewAll(w.ctx, 0, nil)
	require.NoError(w, err)
	want := o.meta
	want.Fence, want.CheckpointID, want.Layout = m.Fence, m.CheckpointID, 3
	require.Equal(w, want, m)
	for _, page := range pages {
		require.Equal(w, bucketOf(page.Number), page.Bucket)
	}
}
