package event

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The encoders append one record's JSON to dst, without allocation if dst has room. Fields are in the order of the documentation; absent
// ones are omitted. The Decoder reads back the same values, except for values that no decoded record holds: bytes that are not UTF-8 become
// U+FFFD, a number that is not finite becomes null, times are clamped to MinTime and MaxTime, and expected payoffs are rounded by
// Millionths.

// AppendImpression appends an impression.
func AppendImpression(dst []byte, r *Impression) []byte {
	dst = impressions.appendJSON(dst, r, 0, candidatesRow)
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
		if c.Pin != 0 {
			dst = strconv.AppendInt(append(dst, `,"pin":`...), int64(c.Pin), 10)
		}
		if i < len(r.Context.Candidates) {
			dst = appendContext(dst, &r.Context.Candidates[i])
		}
		dst = append(dst, '}')
	}
	dst = impressions.appendJSON(append(dst, ']'), r, candidatesRow+1, excludeRow)
	dst = appendFeatures(dst, r.Context.Features)
	return append(impressions.appendJSON(dst, r, contextSegment, len(impressions.rows)), '}')
}

// AppendRanking appends a ranking.
func AppendRanking(dst []byte, r *Ranking) []byte {
	dst = rankings.appendJSON(dst, r, 0, itemsRow)
	dst = appendElements(append(dst, `,"items":[`...), r.Items, appendText)
	return append(appendDecision(append(dst, `,"decision":`...), &r.Decision), '}')
}

// appendDecision writes explored also if it is false, if the policy has propensities: readers who weight by these need both values.
func appendDecision(dst []byte, r *Decision) []byte {
	dst = appendText(append(dst, `{"group":`...), r.Group)
	dst = appendText(append(dst, `,"policy":`...), r.Policy)
	dst = appendText(append(dst, `,"delay":`...), r.Delay)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(r.Partition), 10)
	dst = strconv.AppendInt(append(dst, `,"offset":`...), r.Offset, 10)
	dst = strconv.AppendInt(append(dst, `,"layout":`...), int64(r.Layout), 10)
	dst = appendList(dst, `,"propensities":[`, r.Propensities, appendFloat)
	dst = appendList(dst, `,"expected":[`, r.Expected, appendExpected)
	if r.Instance >= 0 {
		dst = strconv.AppendInt(append(dst, `,"instance":`...), int64(r.Instance), 10)
	}
	if r.Explored || len(r.Propensities) > 0 {
		dst = strconv.AppendBool(append(dst, `,"explored":`...), r.Explored)
	}
	dst = appendList(dst, `,"ranks":[`, r.Ranks, appendRank)
	dst = appendList(dst, `,"undecided":[`, r.Undecided, appendRank)
	dst = appendList(dst, `,"decided":[`, r.Decided, appendRank)
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
	if a.Covariate != 0 {
		dst = appendFloat(append(dst, `,"covariate":`...), FromMillionths(int64(a.Covariate)))
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
	for k := range all {
		begin := byte(',')
		if k == 0 {
			dst, begin = append(dst, `,"shadows":`...), '{'
		}
		dst = appendText(append(dst, begin), all[k].Name)
		dst = appendElements(append(dst, ":["...), all[k].Order, appendRank)
	}
	if len(all) > 0 {
		dst = append(dst, '}')
	}
	return dst
}

// appendList appends a list behind the given beginning; nothing for an empty one.
func appendList[T any](dst []byte, begin string, list []T, each func([]byte, T) []byte) []byte {
	if len(list) == 0 {
		return dst
	}
	return appendElements(append(dst, begin...), list, each)
}

// appendElements appends a list's elements and its end.
func appendElements[T any](dst []byte, list []T, each func([]byte, T) []byte) []byte {
	for i, x := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = each(dst, x)
	}
	return append(dst, ']')
}

func appendExpected(dst []byte, x float64) []byte {
	return appendFloat(dst, FromMillionths(Millionths(x)))
}

func appendRank(dst []byte, r int32) []byte { return strconv.AppendInt(dst, int64(r), 10) }

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
	switch i := strings.IndexByte(escaped, c); {
	case i >= 0:
		return append(dst, '\\', letters[i])
	case c >= utf8.RuneSelf:
		return append(dst, `\ufffd`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
