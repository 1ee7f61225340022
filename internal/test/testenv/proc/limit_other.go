//go:build !linux

package proc

import "errors"

var errNoLimits = errors.New("limits of other processes' files are Linux's alone")

// LimitFiles is not supported here.
func (p *Process) LimitFiles(int64) error { return errNoLimits }
