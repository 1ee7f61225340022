package faults

import (
	"errors"
	"fmt"
)

// ErrViolation is a law that the workers broke.
var ErrViolation = errors.New("violation")

func violated(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrViolation}, args...)...)
}
