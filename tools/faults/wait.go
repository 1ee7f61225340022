package faults

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func every(ctx context.Context, pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// until polls for at most patience. An error of is passes, unless it is the last.
func until(ctx context.Context, patience time.Duration, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := is()
		if ok && err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("waiting until %s: %w (last: %w)", what, ctx.Err(), err)
			}
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		}
	}
}

// ErrViolation is a law that the workers broke.
var ErrViolation = errors.New("violation")

func violated(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrViolation}, args...)...)
}
