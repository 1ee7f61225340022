package faults

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScript: the first failure ends a script, damage is undone nevertheless, and a bug stays a panic.
func TestScript(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	failed, stuck := errors.New("failed"), errors.New("stuck")
	undone := 0
	count := func() error { undone++; return nil }
	require.NoError(t, script(ctx, func() { defer undo(count); try(nil) }))
	err := script(ctx, func() {
		defer undo(func() error { return stuck })
		defer undo(count)
		get(1, failed)
		t.Error("a step after the failure")
	})
	require.ErrorIs(t, err, failed)
	require.ErrorIs(t, err, stuck)
	require.ErrorIs(t, script(ctx, func() { defer undo(func() error { return stuck }) }), stuck)
	require.ErrorIs(t, script(ctx, func() { expect(ctx, failed) }), ErrViolation)
	require.ErrorIs(t, script(ctx, func() { expectNone([]string{"one"}) }), ErrViolation)
	require.Panics(t, func() { _ = script(ctx, func() { defer undo(count); panic("bug") }) })
	require.Equal(t, 3, undone)
	cancel()
	require.ErrorIs(t, script(ctx, func() {}), context.Canceled)
	require.NotErrorIs(t, script(ctx, func() { expect(ctx, failed) }), ErrViolation)
}
