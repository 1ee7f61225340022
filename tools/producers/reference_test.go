package producers

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// messages are those of docs/schemas/ranker.proto, compiled.
func messages(t *testing.T) protoreflect.MessageDescriptors {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		ImportPaths: []string{filepath.Join("..", "..", "docs", "schemas")}})}
	files, err := compiler.Compile(t.Context(), "ranker.proto")
	require.NoError(t, err)
	return files[0].Messages()
}

// field returns Google's decoding of a field: nil if it is not set.
func field(m protoreflect.Message, name protoreflect.Name) any {
	f := m.Descriptor().Fields().ByName(name)
	if !m.Has(f) {
		return nil
	}
	return m.Get(f).Interface()
}

func bytesOf(v any) []byte {
	if v == nil {
		return nil
	}
	return []byte(v.(string))
}

func timeOf(v any) (event.Millis, bool) {
	if v == nil {
		return 0, false
	}
	m := v.(protoreflect.Message)
	seconds, _ := field(m, "seconds").(int64)
	nanos, _ := field(m, "nanos").(int32)
	return time.Unix(seconds, int64(nanos)).UnixMilli(), true
}

// impressionOf reads all of an impression but its context.
func impressionOf(m protoreflect.Message) event.Impression {
	i := event.Impression{ID: bytesOf(field(m, "impression_id")), Learner: bytesOf(field(m, "learner")), User: bytesOf(field(m, "user"))}
	i.Time, i.HasTime = timeOf(field(m, "time"))
	fields := m.Descriptor().Fields()
	excluded := map[string]bool{}
	exclude, candidates := m.Get(fields.ByName("exclude")).List(), m.Get(fields.ByName("candidates")).List()
	for k := range exclude.Len() {
		excluded[exclude.Get(k).String()] = true
	}
	for k := range candidates.Len() {
		c := candidates.Get(k).Message()
		item, pin := bytesOf(field(c, "item")), c.Get(c.Descriptor().Fields().ByName("pin")).Uint()
		if excluded[string(item)] {
			continue
		}
		u, has := field(c, "utility").(float64)
		if !has {
			i.Filled = append(i.Filled, int32(len(i.Candidates)))
		}
		i.HasUtilities = i.HasUtilities || has
		i.Candidates = append(i.Candidates, event.Candidate{Item: item, Utility: u, Pin: int32(pin)})
	}
	return i
}

// scramble draws bytes that may be a message: whole messages of ours behind each other, with a byte changed now and then.
func scramble(t *rapid.T, parts ...[]byte) (value []byte) {
	for range rapid.IntRange(1, 3).Draw(t, "parts") {
		value = append(value, rapid.SampledFrom(parts).Draw(t, "part")...)
	}
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		if len(value) > 0 {
			value[rapid.IntRange(0, len(value)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
	}
	return value[:rapid.IntRange(0, len(value)).Draw(t, "cut")]
}

// A record that our decoder accepts decodes the same in Google's; a record that
// Google's refuses ours refuses too. Other tests show that ours is stricter.
func TestProtobufAgreesWithTheReference(t *testing.T) {
	all, d := messages(t), event.NewKeylessDecoder(event.Limits{}).WithContext()
	sound := 0
	same := func(t *rapid.T, kind protoreflect.Name, value []byte, err error) protoreflect.Message {
		m := dynamicpb.NewMessage(all.ByName(kind))
		refused := proto.Unmarshal(value, m)
		if err != nil || value[0] == 0 { // a schema registry's header is no part of the message
			return nil
		}
		sound++
		require.NoError(t, refused, "%q", value)
		return m
	}
	texts := rapid.SampledFrom([]string{"", "a", "é", "i-1", "\xff"})
	numbers := rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 0.5, 1e300})
	times := rapid.Int64Range(event.MinTime, event.MaxTime)
	rapid.Check(t, func(t *rapid.T) {
		at := times.Draw(t, "time")
		i := event.Impression{ID: []byte(texts.Draw(t, "id")), Learner: []byte(texts.Draw(t, "learner")), Time: at, HasTime: rapid.Bool().Draw(t, "timed"),
			HasUtilities: rapid.Bool().Draw(t, "utilities"), Candidates: []event.Candidate{{Item: []byte("a"), Utility: numbers.Draw(t, "u")}, {Item: []byte("é")}}}
		value := scramble(t, event.AppendProtobufImpression(nil, &i))
		var got event.Impression
		err := d.ImpressionIn(&got, nil, event.Content{Form: event.Protobuf, Value: value})
		if err == nil && got.Context.Fault != nil { // its impression is ranked, without a context
			err = got.Context.Fault
		}
		if m := same(t, "Impression", value, err); m != nil {
			want := impressionOf(m)
			got.Context = event.Context{}
			require.Equal(t, event.AppendProtobufImpression(nil, &want), event.AppendProtobufImpression(nil, &got), "%q", value)
		}
		s := event.Selection{ID: []byte(texts.Draw(t, "id")), Item: []byte("a"), Time: at, HasTime: true, Utility: numbers.Draw(t, "u"), HasUtility: true, ByUtility: rapid.Bool().Draw(t, "shown")}
		value = scramble(t, event.AppendProtobufSelection(nil, &s))
		var gotS event.Selection
		if m := same(t, "Selection", value, d.SelectionIn(&gotS, nil, event.Content{Form: event.Protobuf, Value: value})); m != nil {
			want := event.Selection{ID: bytesOf(field(m, "impression_id")), Item: bytesOf(field(m, "item")), ByUtility: field(m, "shown") != nil}
			want.Time, want.HasTime = timeOf(field(m, "time"))
			want.Utility, want.HasUtility = field(m, "utility").(float64)
			require.Equal(t, event.AppendProtobufSelection(nil, &want), event.AppendProtobufSelection(nil, &gotS), "%q", value)
		}
		p := event.Payoff{ID: []byte(texts.Draw(t, "id")), Payoff: numbers.Draw(t, "p"), Time: at, HasTime: true, Item: []byte(texts.Draw(t, "item")), EventID: []byte("e")}
		value = scramble(t, event.AppendProtobufPayoff(nil, &p))
		var gotP event.Payoff
		if m := same(t, "Payoff", value, d.PayoffIn(&gotP, nil, event.Content{Form: event.Protobuf, Value: value})); m != nil {
			want := event.Payoff{ID: bytesOf(field(m, "impression_id")), Item: bytesOf(field(m, "item")), EventID: bytesOf(field(m, "event_id"))}
			want.Time, want.HasTime = timeOf(field(m, "time"))
			want.Payoff, _ = field(m, "payoff").(float64)
			require.Equal(t, event.AppendProtobufPayoff(nil, &want), event.AppendProtobufPayoff(nil, &gotP), "%q", value)
		}
	})
	require.Positive(t, sound)
}
