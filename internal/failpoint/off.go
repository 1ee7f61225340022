//go:build !failpoints || !linux

package failpoint

import "time"

// Enabled reports whether points and settings are compiled in.
const Enabled = false

func Hit(string) {}

func Duration(string) time.Duration { return 0 }

// Clock returns the error of the clock; here always 0.
func Clock() time.Duration { return 0 }
