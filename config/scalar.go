package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads Go's durations, with optional days in front: "30d", "1d12h", "1.5d".
func ParseDuration(s string) (time.Duration, error) {
	wrong := fmt.Errorf("%s is not a duration; write for example 100ms, 30m, 720h or 30d", quote(s))
	days, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		if s == "0" {
			return 0, nil
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, wrong
		}
		return d, nil
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || strings.Trim(days, "0123456789.") != "" || n > float64(math.MaxInt64/day) {
		return 0, wrong
	}
	d := time.Duration(math.Round(n * float64(day)))
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' || more > math.MaxInt64-d {
		return 0, wrong
	}
	return d + more, nil
}

// FormatDuration is Go's notation without trailing zeros: 720h, not 720h0m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// parseSize reads a whole number of bytes, with or without a unit: 1048576, 1024KiB, 1MiB.
func parseSize(s string) (int64, error) {
	number, unit := s, int64(1)
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			number, unit = strings.TrimRight(n, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, fmt.Errorf("%s is not a size; write for example 1048576, 512KiB or 1MiB", quote(s))
	}
	return n * unit, nil
}

func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if n != 0 && n%u.bytes == 0 && u.bytes > 1 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

func parseFloat(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || strings.ContainsAny(s, "xXpP_") {
		return 0, fmt.Errorf("%s is not a finite number", quote(s))
	}
	return x, nil
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func parseBool(s string) (bool, error) {
	switch s {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", quote(s))
}

var errEmpty = errors.New("is empty")

// quote quotes a value of the file for a message, and shortens it.
func quote(s string) string {
	const most = 60
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > 0 && s[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return strconv.Quote(s[:cut] + "…")
}

func parseSeed(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number from 0 to 2^64-1", quote(s))
	}
	return n, nil
}
