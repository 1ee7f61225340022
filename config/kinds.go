package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
)

func scalar[V any](name, span string, parse func(string) (V, error), print func(V) *yaml.Node, editor schema) kind[V] {
	return kind[V]{name: name, span: span, print: print, editor: editor,
		read: func(s *section, key string, dst *V) { set(s, key, dst, parse) }}
}

// unlessZero is a kind whose zero value means unset, and is not shown.
func unlessZero[V comparable](k kind[V]) kind[V] {
	print := k.print
	k.print = func(v V) *yaml.Node {
		if v == *new(V) {
			return nil
		}
		return print(v)
	}
	return k
}

func words[V ~string](values ...V) kind[V] {
	parse := func(word string) (V, error) {
		v := V(word)
		if slices.Contains(values, v) {
			return v, nil
		}
		hint := ""
		if len(values) > 1 {
			hint = DidYouMean(word, toStrings(values))
		}
		return v, fmt.Errorf("%s is unknown; there %s%s", quote(word), choice("is", "are", values), hint)
	}
	return scalar("word", "`"+strings.Join(toStrings(values), "`, `")+"`", parse,
		func(v V) *yaml.Node { return text(string(v)) }, orReference(schema{"enum": values}))
}

var yesOrNo = scalar("true or false", "true, false", parseBool, boolean,
	orReference(schema{"type": "boolean"}, pattern("^([tT]rue|TRUE|[fF]alse|FALSE)$")))

func wholeNumber(least, most int) kind[int] {
	parse := func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%s is not a whole number", quote(text))
		}
		return n, within(n, least, most, strconv.Itoa)
	}
	return scalar("whole number", Grouped(least)+" to "+Grouped(most), parse, integer,
		orReference(schema{"type": "integer", "minimum": least, "maximum": most}, pattern(`^[+-]?[0-9]+$`)))
}

// number is the kind of a finite number. parse checks its range; span describes it to users, limits to JSON Schema and editors.
func number[V any](span string, parse func(string) (V, error), print func(V) string, limits schema) kind[V] {
	limits["type"] = "number"
	return scalar("number", span, parse, func(v V) *yaml.Node { return plain(print(v)) },
		orReference(limits, numeric))
}

// numberIn includes both ends of its range.
func numberIn(least, most float64) kind[float64] {
	return number(numbers(least, most), func(text string) (float64, error) { return parseWithin(text, least, most) }, formatFloat,
		schema{"minimum": least, "maximum": most})
}

// maybe is an optional number.
func maybe(span string, limits schema) kind[*float64] {
	return unlessZero(number(span, func(text string) (*float64, error) {
		x, err := parseFloat(text)
		return &x, err
	}, func(x *float64) string { return formatFloat(*x) }, limits))
}

// duration takes whole milliseconds only, the unit of all times inside.
func duration(least, most time.Duration) kind[time.Duration] {
	return scalar("duration", spanOf(least)+" to "+spanOf(most), durationWithin(least, most),
		func(d time.Duration) *yaml.Node { return text(FormatDuration(d)) }, durationSchema())
}

func durationWithin(least, most time.Duration) func(string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		v, err := ParseDuration(text)
		if err != nil {
			return 0, err
		}
		if v%time.Millisecond != 0 {
			return 0, fmt.Errorf("%s is not a whole number of milliseconds", quote(text))
		}
		return v, within(v, least, most, FormatDuration)
	}
}

// durationSchema is the schema of a duration of any length: JSON Schema cannot compare units.
func durationSchema(more ...schema) schema {
	return orReference(append(more, schema{"const": 0}, pattern(`^\+?0$|^\+?([0-9.]+(d|h|m|s|ms|us|µs|μs|ns))+$`))...)
}

// durationOr is a duration, or a word, which is stored as kept, a time that is no duration.
func durationOr(word string, kept, least, most time.Duration) kind[time.Duration] {
	parse := durationWithin(least, most)
	return scalar("duration or word", spanOf(least)+" to "+spanOf(most)+", or `"+word+"`",
		func(text string) (time.Duration, error) {
			if text == word {
				return kept, nil
			}
			d, err := parse(text)
			if err != nil {
				err = fmt.Errorf("%w; or write %s", err, word)
			}
			return d, err
		},
		func(d time.Duration) *yaml.Node {
			if d == kept {
				return text(word)
			}
			return text(FormatDuration(d))
		}, durationSchema(schema{"const": word}))
}

func size[V int | int64](least, most V, check func(V, error) error) kind[V] {
	parse := func(text string) (V, error) {
		n, err := parseSize(text)
		if err != nil {
			return 0, err
		}
		return V(n), check(V(n), within(n, int64(least), int64(most), formatSize))
	}
	return scalar("size", formatSize(int64(least))+" to "+formatSize(int64(most)), parse,
		func(v V) *yaml.Node { return plain(formatSize(int64(v))) },
		orReference(schema{"type": "integer", "minimum": least, "maximum": most}, pattern(`^\+?[0-9]+ *(B|KiB|MiB|GiB)?$`)))
}

// anything is a text that check accepts.
func anything(name, span string, check func(string) error) kind[string] {
	return scalar(name, span, func(text string) (string, error) { return text, check(text) }, text, anyText)
}

// orEmpty also accepts the empty text.
func orEmpty(check func(string) error) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
}

var (
	isFilled = func(s string) error {
		if s == "" {
			return errEmpty
		}
		return nil
	}
	user = unlessZero(anything("text", "", isFilled))
	// saslExtensions are in librdkafka's format.
	saslExtensions = unlessZero(anything("text", "name=value,…", func(s string) error { _, err := parseExtensions(s); return err }))
	awsRegion      = unlessZero(anything("name", "such as `eu-west-1`", isRegion))
	tokenURL       = unlessZero(anything("URL", "`https://…`", isTokenURL))
	file           = unlessZero(anything("file", "a path", func(string) error { return nil }))
	neededFile     = unlessZero(anything("file", "a path", isFilled))
)

var secret = unlessZero(kind[Secret]{name: "secret", editor: anyText,
	read:  func(s *section, key string, dst *Secret) { s.secret(key, dst) },
	print: func(Secret) *yaml.Node { return text(Mask) }})

// orAuto is a number within a span, or the word auto.
func orAuto(span string, within func(float64) bool, limits schema) kind[OrAuto] {
	parse := func(text string) (OrAuto, error) {
		if text == "auto" {
			return OrAuto{Auto: true}, nil
		}
		x, err := parseFloat(text)
		if err == nil && !within(x) {
			err = fmt.Errorf("%s is not a number %s", quote(text), span)
		}
		if err != nil {
			err = fmt.Errorf("%w; or write auto", err)
		}
		return OrAuto{Value: x}, err
	}
	k := number(span+", or `auto`", parse, OrAuto.String, limits)
	k.name, k.editor = "number or auto", orReference(schema{"const": "auto"}, limits, numeric)
	return k
}

// addresses is the kind of a list of host:port; none is the fault of an empty list.
func addresses(none string) kind[[]string] {
	return kind[[]string]{name: "list of addresses", span: "host:port",
		read: func(s *section, key string, dst *[]string) {
			*dst = s.addresses(key)
			if len(*dst) == 0 && s.has(key) {
				s.missing(key, "%s", none)
			}
		},
		print:  list,
		editor: schema{"type": []string{"array", "string"}, "minItems": 1, "items": schema{"type": "string"}},
	}
}

// listOf is a list of any length. read reads the element at path, with those before it, and reports its faults.
func listOf[V any](name, span string, read func(s *section, path string, n *yaml.Node, before []V) V, print func(V) *yaml.Node, each schema) kind[[]V] {
	return kind[[]V]{name: name, span: span, editor: schema{"type": []string{"array", "null"}, "items": each},
		read: func(s *section, key string, dst *[]V) {
			for i, n := range s.elements(key) {
				*dst = append(*dst, read(s, key+"["+strconv.Itoa(i)+"]", n, *dst))
			}
		},
		print: func(all []V) *yaml.Node { return sequence(all, print) }}
}

// noneUnset is a kind of lists whose empty list is not shown.
func noneUnset[V any](k kind[[]V]) kind[[]V] {
	print := k.print
	k.print = func(all []V) *yaml.Node {
		if len(all) == 0 {
			return nil
		}
		return print(all)
	}
	return k
}

// wordOr is one of some named values, or a mapping with all of some keys, whose defaults are begin.
func wordOr[V any](word func(V) string, values []V, begin V, parts []setting[V], example string) kind[V] {
	var names, keys []string
	for _, v := range values {
		names = append(names, word(v))
	}
	for _, p := range parts {
		keys = append(keys, p.key)
	}
	parse := func(name string) (V, error) {
		if i := slices.Index(names, name); i >= 0 {
			return values[i], nil
		}
		return begin, fmt.Errorf("%s is unknown; there are %s and %s", quote(name), strings.Join(names, ", "), example)
	}
	return kind[V]{name: "word or mapping", parts: parts, editor: orReference(schema{"enum": names}, object(parts)),
		span: "`" + strings.Join(names, "`, `") + "`, or a mapping with `" + strings.Join(keys, "` and `") + "`",
		read: func(s *section, key string, dst *V) {
			f, ok := s.ask(key)
			if !ok {
				return
			}
			r, ok := s.d.resolve(s.join(key), f.value)
			if !ok {
				return
			}
			if r.Kind != yaml.MappingNode {
				set(s, key, dst, parse)
				return
			}
			one, v := s.d.open(s.join(key), f.at, r), begin
			readAll(one, parts, &v)
			one.close()
			*dst = v
		},
		print: func(v V) *yaml.Node {
			if name := word(v); name != "" {
				return text(name)
			}
			return printAll(parts, &v).node(true)
		}}
}

// Grouped formats a number with separators: 100,000.
func Grouped[I ~int | ~int64](n I) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// numbers formats a range in powers of ten: 10⁻⁹ to 1.
func numbers(least, most float64) string {
	show := func(x float64) string {
		mantissa, power, scientific := strings.Cut(formatFloat(x), "e")
		if !scientific || mantissa != "1" {
			return formatFloat(x)
		}
		n, _ := strconv.Atoi(power)
		return "10" + strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹").Replace(strconv.Itoa(n))
	}
	return show(least) + " to " + show(most)
}

// spanOf formats the end of a range, in days if they are whole.
func spanOf(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	}
	return FormatDuration(d)
}

var rangeKind = kind[Range]{name: "two numbers",
	span:   "the first below the second, with a million float64s or more between them",
	editor: orReference(schema{"type": "array", "minItems": 2, "maxItems": 2, "items": aNumber}, pattern("^[^,]+,[^,]+$")),
	read: func(s *section, key string, dst *Range) {
		x, ok := s.numbers(key, 2, func(int) string { return key })
		if !ok {
			return
		}
		if err := checkRange(x[0], x[1]); err != nil {
			s.fault(key, "%v", err)
			return
		}
		*dst = Range{Min: x[0], Max: x[1]}
	},
	print: func(r Range) *yaml.Node { return printNumbers([]float64{r.Min, r.Max}) }}

func aboutPolicies() string {
	of := map[bool][]string{}
	for _, k := range policy.Specs {
		of[k.IsAdversarial()] = append(of[k.IsAdversarial()], "`"+k.Name+"`")
	}
	return strings.Join(of[false], ", ") + " for stochastic payoffs; " + strings.Join(of[true], ", ") + " for adversarial ones, " +
		"where `" + string(Robust) + "` is the default, or with `delay: bold` `" + string(FTRL) + "`"
}
