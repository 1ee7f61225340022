//go:build !failpoints || !linux

package failpoint

import "time"

// Enabled tells whether points and settings were compiled in.
const Enabled = false

// Hit does nothing.
func Hit(string) {}

// Duration is a setting for tests; here always 0.
func Duration(string) time.Duration { return 0 }
