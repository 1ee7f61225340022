package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

func TestOwnership_WhatTheStoreMayShow(t *testing.T) {
	o := ownership{fence: state.Fence{Token: "ours", Seq: 7}}
	for _, tc := range []struct {
		name   string
		shown  state.Fence
		saving bool
		ours   bool
	}{
		{"as we left it", state.Fence{Token: "ours", Seq: 7}, false, true},
		{"as it was when we asked", state.Fence{Token: "ours", Seq: 5}, false, true},
		{"before that: a rollback", state.Fence{Token: "ours", Seq: 4}, false, false},
		{"with a checkpoint that is not acked yet", state.Fence{Token: "ours", Seq: 8}, true, true},
		{"with one that we have not sent", state.Fence{Token: "ours", Seq: 8}, false, false},
		{"a later owner's", state.Fence{Token: "theirs", Seq: 7}, false, false},
	} {
		err := o.verify(tc.shown, 5, tc.saving)
		if tc.ours {
			require.NoError(t, err, tc.name)
		} else {
			require.ErrorIs(t, err, state.ErrFenced, tc.name)
		}
	}
}

func TestOwnership_ProbesShowWhetherTheStoreIsFit(t *testing.T) {
	o := ownership{}
	require.False(t, o.probeDue(probeEvery-1))
	require.True(t, o.probeDue(probeEvery))
	o.probing = true
	require.False(t, o.probeDue(time.Hour))
	o.probed(time.Hour, state.ErrUnfit)
	require.True(t, o.unfit)
	require.False(t, o.probeDue(time.Hour))
	o.probed(time.Hour, errLost)
	require.True(t, o.unfit, "nobody has said that it is fit again")
	o.probed(time.Hour, nil)
	require.False(t, o.unfit)
	o.probed(time.Hour, errLost)
	require.False(t, o.unfit)
}
