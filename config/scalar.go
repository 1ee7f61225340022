package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
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

func parseWithin(text string, least, most float64) (float64, error) {
	x, err := parseFloat(text)
	if err == nil && !(x >= least && x <= most) {
		err = fmt.Errorf("must be from %s to %s, not %s", formatFloat(least), formatFloat(most), text)
	}
	return x, err
}

// checkAddress requires host:port. For listening the port may be 0, and the host missing.
func checkAddress(s string, listen bool) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%s is not host:port", quote(s))
	}
	least := uint64(1)
	if listen {
		least = 0
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < least {
		return fmt.Errorf("%s does not end in a port from 1 to 65535", quote(s))
	}
	if host == "" && listen {
		return nil
	}
	return checkHost(host)
}

// isLoopback reports whether host:port stays on this machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback()
	}
	return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

func allLoopback(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(a string) bool { return !isLoopback(a) })
}

// leastSteps is the least number of distinct payoffs in a range. A millionth of a range is far below the noise of payoffs.
const leastSteps = 1 << 20

// checkRange requires that payoffs stay distinct when normalised to [0,1]: (x−min)/(max−min). Subtraction and division are exact to a bit,
// so precision is lost only in x. The doubles of the range are at most one unit in the last place of its larger end apart, which must be
// small against the width. So a narrow range of large numbers is refused, [1e9, 1e9+1e-7], and one of denormals, [0, 5e-324].
func checkRange(low, high float64) error {
	if !(low < high) {
		return fmt.Errorf("the first number must be below the second, not [%s, %s]", formatFloat(low), formatFloat(high))
	}
	width := high - low
	if math.IsInf(width, 0) {
		return errors.New("is too wide to be normalised")
	}
	largest := max(math.Abs(low), math.Abs(high))
	unit := largest - math.Nextafter(largest, 0)
	if steps := width / unit; steps < leastSteps {
		return fmt.Errorf("[%s, %s] is too narrow: numbers of that size are %s apart, which leaves payoffs steps of 1/%.0f of the "+
			"range; give them in another unit, or as differences from the first number", formatFloat(low), formatFloat(high),
			formatFloat(unit), steps)
	}
	return nil
}

// checkHost accepts an address, or a name with labels that are not empty. A last label that is a number means a mistyped address.
func checkHost(host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	wrong := func(label string) bool {
		return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-'
	}
	if !plainName.MatchString(host) || len(host) > 253 || slices.ContainsFunc(labels, wrong) ||
		strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return fmt.Errorf("%s is not the name or address of a host", quote(host))
	}
	return nil
}

var (
	learnerName = regexp.MustCompile(`^[a-z0-9._-]+$`)
	plainName   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)
