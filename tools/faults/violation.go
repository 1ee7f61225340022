package faults

import (
	"context"
	"errors"
	"fmt"
)

// ErrViolation is a law that the workers broke.
var ErrViolation = errors.New("violation")

// must makes a failure of the workers a violation, if they had time.
func must(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return violated("%v", err)
}

func violated(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrViolation}, args...)...)
}
