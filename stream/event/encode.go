package event

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// The encoders append one record's JSON to dst, without allocation if dst has room. Fields are in the order of the documentation; absent
// ones are omitted. The Decoder reads back the same values, except for values that no decoded record holds: bytes that are not UTF-8 become
// U+FFFD, a number that is not finite becomes null, times are clamped to MinTime and MaxTime, and expected payoffs are rounded by
// Millionths.

func AppendImpression(dst []byte, r *Impression) []byte {
	dst = appendText(append(dst, `{"impression_id":`...), r.ID)
	if len(r.Learner) > 0 {
		dst = appendText(append(dst, `,"learner":`...), r.Learner)
	}
	if r.HasTime {
		dst = appendQuotedTime(append(dst, `,"time":`...), r.Time)
	}
	dst = append(dst, `,"candidates":[`...)
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, `{"item":`...), c.Item)
		if r.HasUtility(i) {
			dst = appendFloat(append(dst, `,"utility":`...), c.Utility)
		}
		if i < len(r.Context.Candidates) {
			dst = appendContext(dst, &r.Context.Candidates[i])
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if len(r.User) > 0 {
		dst = appendText(append(dst, `,"user":`...), r.User)
	}
	dst = appendFeatures(dst, r.Context.Features)
	if len(r.Context.Segment) > 0 {
		dst = appendText(append(dst, `,"segment":`...), r.Context.Segment)
	}
	return append(dst, '}')
}

func AppendSelection(dst []byte, r *Selection) []byte {
	dst = appendText(append(dst, `{"impression_id":`...), r.ID)
	dst = appendText(append(dst, `,"item":`...), r.Item)
	if r.HasTime {
		dst = appendQuotedTime(append(dst, `,"time":`...), r.Time)
	}
	if r.HasUtility {
		dst = appendFloat(append(dst, `,"utility":`...), r.Utility)
	}
	if r.ByUtility {
		dst = appendText(append(dst, `,"shown":`...), ShownByUtility)
	}
	return append(dst, '}')
}

func AppendPayoff(dst []byte, r *Payoff) []byte {
	dst = appendText(append(dst, `{"impression_id":`...), r.ID)
	dst = appendFloat(append(dst, `,"payoff":`...), r.Payoff)
	if r.HasTime {
		dst = appendQuotedTime(append(dst, `,"time":`...), r.Time)
	}
	if len(r.Item) > 0 {
		dst = appendText(append(dst, `,"item":`...), r.Item)
	}
	if len(r.EventID) > 0 {
		dst = appendText(append(dst, `,"event_id":`...), r.EventID)
	}
	return append(dst, '}')
}

func AppendRanking(dst []byte, r *Ranking) []byte {
	dst = appendText(append(dst, `{"impression_id":`...), r.ID)
	if len(r.Learner) > 0 {
		dst = appendText(append(dst, `,"learner":`...), r.Learner)
	}
	dst = appendQuotedTime(append(dst, `,"time":`...), r.Time)
	dst = append(dst, `,"items":[`...)
	for i, item := range r.Items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, item)
	}
	dst = append(dst, `],"decision":`...)
	dst = appendDecision(dst, &r.Decision)
	return append(dst, '}')
}

// appendDecision writes explored also if it is false, if the policy has propensities: readers who weight by these need both values.
func appendDecision(dst []byte, r *Decision) []byte {
	dst = appendText(append(dst, `{"group":`...), r.Group)
	dst = appendText(append(dst, `,"policy":`...), r.Policy)
	dst = appendText(append(dst, `,"delay":`...), r.Delay)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(r.Partition), 10)
	dst = strconv.AppendInt(append(dst, `,"offset":`...), r.Offset, 10)
	dst = strconv.AppendInt(append(dst, `,"layout":`...), int64(r.Layout), 10)
	if len(r.Propensities) > 0 {
		dst = append(dst, `,"propensities":[`...)
		for i, p := range r.Propensities {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendFloat(dst, p)
		}
		dst = append(dst, ']')
	}
	if len(r.Expected) > 0 {
		dst = append(dst, `,"expected":[`...)
		for i, x := range r.Expected {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendFloat(dst, FromMillionths(Millionths(x)))
		}
		dst = append(dst, ']')
	}
	if r.Instance >= 0 {
		dst = strconv.AppendInt(append(dst, `,"instance":`...), int64(r.Instance), 10)
	}
	if r.Explored || len(r.Propensities) > 0 {
		dst = strconv.AppendBool(append(dst, `,"explored":`...), r.Explored)
	}
	dst = appendRanks(dst, `,"ranks":[`, r.Ranks)
	dst = appendRanks(dst, `,"undecided":[`, r.Undecided)
	dst = appendAssignment(dst, r)
	dst = appendShadows(dst, r.Shadows)
	dst = append(dst, `,"seed":"`...)
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[r.Seed>>shift&15])
	}
	dst = append(dst, '"')
	dst = appendQuotedTime(append(dst, `,"began":`...), r.Began)
	if r.HasSelection {
		dst = appendQuotedTime(append(dst, `,"selection_deadline":`...), r.SelectionDeadline)
	}
	dst = appendQuotedTime(append(dst, `,"payoff_deadline":`...), r.PayoffDeadline)
	return append(dst, '}')
}

func appendAssignment(dst []byte, r *Decision) []byte {
	a := &r.Assignment
	if len(a.Experiment) == 0 {
		return dst
	}
	dst = appendText(append(dst, `,"experiment":`...), a.Experiment)
	dst = strconv.AppendInt(append(dst, `,"run":`...), int64(a.Run), 10)
	dst = appendText(append(dst, `,"arm":`...), a.Arm)
	dst = appendFloat(append(dst, `,"arm_probability":`...), a.Probability)
	if len(a.Unit) > 0 {
		dst = appendText(append(dst, `,"unit":`...), a.Unit)
	}
	if a.Fallback {
		dst = append(dst, `,"fallback":true`...)
	}
	if v := &r.Verdict; len(v.Arm) > 0 {
		dst = strconv.AppendInt(append(dst, `,"verdict":{"run":`...), int64(v.Run), 10)
		dst = appendText(append(dst, `,"arm":`...), v.Arm)
		dst = strconv.AppendInt(append(dst, `,"n":`...), v.Units, 10)
		dst = appendFloat(append(dst, `,"lower":`...), v.Lower)
		dst = append(appendFloat(append(dst, `,"upper":`...), v.Upper), '}')
	}
	return dst
}

func appendShadows(dst []byte, all []Shadow) []byte {
	if len(all) == 0 {
		return dst
	}
	dst = append(dst, `,"shadows":{`...)
	for k := range all {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(dst, all[k].Name), ":["...)
		for i, at := range all[k].Order {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(at), 10)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendRanks(dst []byte, name string, ranks []int32) []byte {
	if len(ranks) == 0 {
		return dst
	}
	dst = append(dst, name...)
	for i, r := range ranks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(r), 10)
	}
	return append(dst, ']')
}

func appendQuotedTime(dst []byte, t Millis) []byte {
	return append(AppendTime(append(dst, '"'), t), '"')
}

// appendFloat appends the shortest decimal that reads back as the same number, in encoding/json's notation: with an exponent below 1e-6 and
// from 1e21 on.
func appendFloat(dst []byte, x float64) []byte {
	abs := math.Abs(x)
	if !(abs <= math.MaxFloat64) {
		return append(dst, "null"...)
	}
	if abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, x, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, x, 'e', -1, 64)
	if n := len(dst); dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' { // e-07, as in 1e-7
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendText appends a JSON string, with only the necessary escapes: quotation marks, backslashes and control characters.
func appendText[T []byte | string](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if !special[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			size := runeSize(s, i)
			if size > 0 {
				i += size
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscaped(dst, c)
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// runeSize returns the length of the UTF-8 sequence at s[i], or 0.
func runeSize[T []byte | string](s T, i int) int {
	var b [utf8.UTFMax]byte
	r, size := utf8.DecodeRune(b[:copy(b[:], s[i:])])
	if r == utf8.RuneError && size == 1 {
		return 0
	}
	return size
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if c >= utf8.RuneSelf {
		return append(dst, `\ufffd`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
