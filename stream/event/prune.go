package event

import (
	"slices"

	"github.com/valyala/fastjson"
)

// prune appends to dst a record without what is ignored in it: members of other names, and what arrays and objects hold that
// stand where a text or number should. The JSON library takes some 240 bytes for a value of two, so that a record made of
// nothing but small ones would cost a hundred times its size; what remains is bounded by the limits. What is faulty in the record
// is so still.
//
// b is sound, see scan. Names are those of the record's members; that of a list, if there is one, holds objects with members of the
// names of its elements, of which there may be most.
func prune(dst, b []byte, names []string, list string, elements []string, most int) ([]byte, *Fault) {
	i := skipSpace(b, 0)
	return pruneValue(dst, b[i:skip(b, i)], names, func(dst []byte, name string, value []byte) ([]byte, *Fault) {
		if name != list || value[0] != '[' {
			return append(dst, hollow(value)...), nil
		}
		n := 0
		dst = append(dst, '[')
		for e := range items(value) {
			if n++; n > most && most > 0 {
				continue
			}
			if n > 1 {
				dst = append(dst, ',')
			}
			var f *Fault
			dst, f = pruneValue(dst, e, elements, func(dst []byte, _ string, value []byte) ([]byte, *Fault) {
				return append(dst, hollow(value)...), nil
			})
			if f != nil {
				return dst, within(f, list, n-1)
			}
		}
		if n > most && most > 0 {
			return dst, tooManyCandidates(n, most)
		}
		return append(dst, ']'), nil
	})
}

// pruneValue appends an object with its named members, each as member appends its value; of anything else what is left of it.
func pruneValue(dst, value []byte, names []string, member func(dst []byte, name string, value []byte) ([]byte, *Fault)) ([]byte, *Fault) {
	if value[0] != '{' {
		return append(dst, hollow(value)...), nil
	}
	var seen []string
	dst = append(dst, '{')
	for quoted, value := range members(value) {
		name := unquoted(quoted)
		if !slices.Contains(names, name) {
			continue
		}
		if slices.Contains(seen, name) {
			return dst, givenTwice(name)
		}
		if len(seen) > 0 {
			dst = append(dst, ',')
		}
		seen = append(seen, name)
		dst = append(append(dst, quoted...), ':')
		var f *Fault
		if dst, f = member(dst, name, value); f != nil {
			return dst, f
		}
	}
	return append(dst, '}'), nil
}

// hollow is a value of the same type that holds nothing, of an object or array; others are themselves.
func hollow(value []byte) []byte {
	switch value[0] {
	case '{':
		return []byte("{}")
	case '[':
		return []byte("[]")
	}
	return value
}

// unquoted is the text of a string.
func unquoted(b []byte) string {
	if slices.Contains(b, '\\') {
		v, err := fastjson.ParseBytes(b)
		if err != nil {
			return "" // not to be reached: b is sound
		}
		return string(v.GetStringBytes())
	}
	return string(b[1 : len(b)-1])
}

// members are the names, with their quotes, and values of a sound object.
func members(b []byte) func(yield func(name, value []byte) bool) {
	return func(yield func(name, value []byte) bool) {
		for i := skipSpace(b, 1); b[i] != '}'; {
			name := b[i:skip(b, i)]
			i = skipSpace(b, i+len(name))
			i = skipSpace(b, i+1) // the colon
			end := skip(b, i)
			if !yield(name, b[i:end]) {
				return
			}
			i = behindComma(b, end)
		}
	}
}

// items are the values in a sound array.
func items(b []byte) func(yield func(value []byte) bool) {
	return func(yield func(value []byte) bool) {
		for i := skipSpace(b, 1); b[i] != ']'; {
			end := skip(b, i)
			if !yield(b[i:end]) {
				return
			}
			i = behindComma(b, end)
		}
	}
}

func behindComma(b []byte, i int) int {
	if i = skipSpace(b, i); b[i] == ',' {
		i = skipSpace(b, i+1)
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// skip is the index behind the value at b[i], which is sound.
func skip(b []byte, i int) int {
	for depth := 0; ; {
		switch b[i] {
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default:
			i, _ = scanScalar(b, i)
		}
		if depth == 0 {
			return i
		}
	}
}
