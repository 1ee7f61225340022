package config

import "time"

// ParseDuration reads a Go duration, with optional days in front: 7d or 1d12h.
func ParseDuration(s string) (time.Duration, error) { return parseDuration(s) }

// FormatDuration is the inverse of ParseDuration.
func FormatDuration(d time.Duration) string { return formatDuration(d) }
