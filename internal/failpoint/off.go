//go:build !failpoints || !linux

package failpoint

import "time"

// Enabled reports whether points and settings are compiled in.
const Enabled = false

// Hit does nothing.
func Hit(string) {}

// Duration is a setting for tests; here always 0.
func Duration(string) time.Duration { return 0 }

// Clock is by how much the clock is to be wrong; here always 0.
func Clock() time.Duration { return 0 }
