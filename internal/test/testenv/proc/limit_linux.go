package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LimitFiles makes writes of the process fail that would make a file longer than bytes, as on a full disk, but with EFBIG instead of
// ENOSPC. A negative number removes the limit. Such a write kills a process that does not ignore SIGXFSZ; Java ignores it.
func (p *Process) LimitFiles(bytes int64) error {
	select {
	case <-p.done:
		return fmt.Errorf("limit the files of %s: %w", p.cfg.Name, ErrExited)
	default:
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(p.PID(), unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return fmt.Errorf("read the limit of the files of %s: %w", p.cfg.Name, err)
	}
	limit.Cur = limit.Max // only root may raise the hard limit again
	if bytes >= 0 {
		limit.Cur = uint64(bytes)
	}
	if err := unix.Prlimit(p.PID(), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		return fmt.Errorf("limit the files of %s: %w", p.cfg.Name, err)
	}
	return nil
}
