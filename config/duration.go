package config

import "time"

// ParseDuration reads a duration as files have it: Go's, and days in front, such as 7d or 1d12h.
func ParseDuration(s string) (time.Duration, error) { return parseDuration(s) }

// FormatDuration writes one so that ParseDuration reads it again.
func FormatDuration(d time.Duration) string { return formatDuration(d) }
