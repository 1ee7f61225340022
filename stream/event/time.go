package event

import "time"

// The range of RFC 3339 with four digits of the year, in UTC.
const (
	MinTime Millis = -62135596800000 // 0001-01-01T00:00:00.000Z
	MaxTime Millis = 253402300799999 // 9999-12-31T23:59:59.999Z
)

// ParseTime reads an RFC 3339 time, with Z or any numeric offset, and truncates to milliseconds. It is strict: capital T and Z, two digits
// each, a full stop before the fraction, no leap second. ok is false for other text, and outside MinTime to MaxTime. It does not allocate,
// and ignores the machine's time zone, unlike time.Parse.
func ParseTime(b []byte) (t Millis, ok bool) {
	const fixed = len("2006-01-02T15:04:05")
	if len(b) <= fixed || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	century, ok1 := twoDigits(b[0:])
	year, ok2 := twoDigits(b[2:])
	month, ok3 := twoDigits(b[5:])
	day, ok4 := twoDigits(b[8:])
	hour, ok5 := twoDigits(b[11:])
	minute, ok6 := twoDigits(b[14:])
	second, ok7 := twoDigits(b[17:])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	date := time.Date(100*century+year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if day > 28 && date.Day() != day { // time.Date turns the 30th of February into a day of March
		return 0, false
	}
	millis, rest, ok := fraction(b[fixed:])
	if !ok {
		return 0, false
	}
	offset, ok := zone(rest)
	if !ok {
		return 0, false
	}
	t = date.UnixMilli() + millis - offset
	return t, MinTime <= t && t <= MaxTime
}

// fraction reads an optional fraction of a second, and returns the bytes behind it.
func fraction(b []byte) (millis int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '.' {
		return 0, b, true
	}
	b = b[1:]
	n := 0
	for unit := int64(100); n < len(b) && isDigit(b[n]); n++ {
		millis += unit * int64(b[n]-'0')
		unit /= 10
	}
	return millis, b[n:], n > 0
}

// zone reads "Z" or an offset such as "+05:30", and returns milliseconds.
func zone(b []byte) (offset int64, ok bool) {
	if len(b) == 1 {
		return 0, b[0] == 'Z'
	}
	if len(b) != len("+00:00") || b[3] != ':' {
		return 0, false
	}
	hours, ok1 := twoDigits(b[1:])
	minutes, ok2 := twoDigits(b[4:])
	if !ok1 || !ok2 || hours > 23 || minutes > 59 {
		return 0, false
	}
	offset = int64(60*hours+minutes) * 60_000
	switch b[0] {
	case '+':
		return offset, true
	case '-':
		return -offset, true
	}
	return 0, false
}

func twoDigits(b []byte) (n int, ok bool) {
	return int(b[0]-'0')*10 + int(b[1]-'0'), isDigit(b[0]) && isDigit(b[1])
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// AppendTime appends t as RFC 3339 in UTC with milliseconds: 2026-11-21T10:00:00.000Z. It clamps t to MinTime and MaxTime, and does not
// allocate.
func AppendTime(dst []byte, t Millis) []byte {
	u := time.UnixMilli(min(max(t, MinTime), MaxTime)).UTC()
	year, month, day := u.Date()
	hour, minute, second := u.Clock()
	millis := u.Nanosecond() / 1_000_000
	d := func(n int) byte { return byte('0' + n%10) }
	return append(dst,
		d(year/1000), d(year/100), d(year/10), d(year), '-', d(int(month)/10), d(int(month)), '-', d(day/10), d(day), 'T',
		d(hour/10), d(hour), ':', d(minute/10), d(minute), ':', d(second/10), d(second),
		'.', d(millis/100), d(millis/10), d(millis), 'Z')
}
