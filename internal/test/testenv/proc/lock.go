package proc

import (
	"errors"
	"fmt"
	"os"
)

// LockFile locks a file, which it makes if there is none. It waits while another process holds the lock, so that test processes fetch Kafka
// one at a time.
func LockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
