package registry

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/avro"

	"github.com/ranker-worker/ranker-worker/internal/test/memcap"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

var formats = event.Formats{event.Avro, event.Avro, event.Avro}

// server answers as Confluent's registry does; asked counts its requests.
type server struct {
	ill      atomic.Bool
	asked    atomic.Int64
	login    atomic.Value
	atOnce   atomic.Int64
	mostOnce atomic.Int64

	met  chan struct{} // nil: nobody waits
	meet sync.Once

	mu      sync.Mutex
	schemas map[string]string // by path, the answer
	failing map[string]int    // by path, the status of an answer that says nothing
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	now := s.atOnce.Add(1)
	defer s.atOnce.Add(-1)
	for most := s.mostOnce.Load(); now > most && !s.mostOnce.CompareAndSwap(most, now); most = s.mostOnce.Load() {
	}
	if s.met != nil { // requests wait here until as many are in flight
		if now == mostAtOnce {
			s.meet.Do(func() { close(s.met) })
		}
		select {
		case <-s.met:
		case <-time.After(3 * time.Second):
		}
	}
	s.login.Store(r.Header.Get("Authorization"))
	s.mu.Lock()
	answer, ok := s.schemas[r.URL.Path]
	status := s.failing[r.URL.Path]
	s.mu.Unlock()
	switch {
	case s.ill.Load():
		http.Error(w, "down for maintenance", http.StatusNotFound)
	case status != 0:
		http.Error(w, "an answer of its own", status)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
	default:
		_, _ = w.Write([]byte(answer))
	}
}

func (s *server) register(path, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schemas[path] = answer
}

// fail has a path answered with a status from now on; 0: as usual.
func (s *server) fail(path string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing[path] = status
}

func answer(schema string, more string) string {
	text, _ := json.Marshal(schema)
	return `{"schema":` + string(text) + more + `}`
}

func start(t *testing.T, schemas map[string]string) (*Reader, *server) {
	t.Helper()
	if schemas == nil {
		schemas = map[string]string{}
	}
	s := &server{schemas: schemas, failing: map[string]int{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	r, err := New(Options{URL: h.URL, Formats: formats, Login: func(r *http.Request) error { r.SetBasicAuth("u", "p"); return nil }})
	require.NoError(t, err)
	return r, s
}

// written is a value by a schema, of the id 7.
func written(t *testing.T, schema string, v any) []byte {
	t.Helper()
	b, err := avro.MustParse(schema).Encode(v)
	require.NoError(t, err)
	return append([]byte{0, 0, 0, 0, 7}, b...)
}

// read converts a value whose schema has the id 7, and decodes the result.
func read[R any](t *testing.T, topic event.Topic, schema string, value []byte, decode func(*event.Decoder) func(*R, []byte, event.Content) error) (out R, err error) {
	t.Helper()
	r, _ := start(t, map[string]string{"/schemas/ids/7": answer(schema, "")})
	plain, f, err := r.one(t, topic, value)
	require.NoError(t, err)
	if f != nil {
		return out, f
	}
	err = decode(event.NewFormatsDecoder(event.Limits{}, formats))(&out, []byte("i-1"), event.Content{Form: event.Avro, Value: value, Plain: plain})
	return out, err
}

// one reads a single value.
func (r *Reader) one(t *testing.T, topic event.Topic, value []byte) ([]byte, *event.Fault, error) {
	t.Helper()
	got, err := r.Read(t.Context(), topic, [][]byte{value})
	if err != nil {
		require.Empty(t, got)
		return nil, nil, err
	}
	return got[0].Plain, got[0].Fault, nil
}

func impressionIn(d *event.Decoder) func(*event.Impression, []byte, event.Content) error {
	return d.ImpressionIn
}
func selectionIn(d *event.Decoder) func(*event.Selection, []byte, event.Content) error {
	return d.SelectionIn
}
func payoffIn(d *event.Decoder) func(*event.Payoff, []byte, event.Content) error { return d.PayoffIn }

func TestRead_ByTheWritersSchema(t *testing.T) {
	at := time.UnixMilli(1795255200123).UTC()
	t.Run("impression", func(t *testing.T) {
		schema := `{"type":"record","name":"Shown","namespace":"com.shop","fields":[
			{"name":"context","type":{"type":"map","values":"string"}},
			{"name":"time","type":{"type":"long","logicalType":"timestamp-micros"}},
			{"name":"candidates","type":["null",{"type":"array","items":{"type":"record","name":"Offer","fields":[
				{"name":"price","type":"double"},{"name":"utility","type":["float","null"]},{"name":"item","type":"string"}]}}]},
			{"name":"request","aliases":["impression_id"],"type":"string"},{"name":"user","type":["null","string"]}]}`
		type offer struct {
			Price   float64  `avro:"price"`
			Utility *float32 `avro:"utility"`
			Item    string   `avro:"item"`
		}
		u, user := float32(0.5), "u-1"
		got, err := read(t, event.Impressions, schema, written(t, schema, &struct {
			Context map[string]string `avro:"context"`
			Time    time.Time         `avro:"time"`
			List    []offer           `avro:"candidates"`
			ID      string            `avro:"request"`
			User    *string           `avro:"user"`
		}{map[string]string{"page": "home"}, at, []offer{{1, &u, "a"}, {2, nil, "b"}}, "i-1", &user}), impressionIn)
		require.NoError(t, err)
		require.Equal(t, event.Impression{ID: []byte("i-1"), Time: at.UnixMilli(), HasTime: true, HasUtilities: true, Filled: []int32{1}, User: []byte("u-1"),
			Candidates: []event.Candidate{{Item: []byte("a"), Utility: 0.5}, {Item: []byte("b"), Utility: 0.5}}}, got, "a candidate without a utility has the median of the others'")
	})
	t.Run("selection", func(t *testing.T) {
		schema := `{"type":"record","name":"S","fields":[{"name":"impression_id","type":"string"},{"name":"item","type":["null","string"]},
			{"name":"time","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null},{"name":"utility","type":"int"}]}`
		got, err := read(t, event.Selections, schema, written(t, schema, map[string]any{"impression_id": "i-1", "item": "a", "time": nil, "utility": 3}), selectionIn)
		require.NoError(t, err)
		require.Equal(t, event.Selection{ID: []byte("i-1"), Item: []byte("a"), Utility: 3, HasUtility: true}, got)
		_, err = read(t, event.Selections, schema, written(t, schema, map[string]any{"impression_id": "i-1", "item": nil, "time": nil, "utility": 3}), selectionIn)
		require.ErrorContains(t, err, string(event.MissingItem))
	})
	t.Run("payoff", func(t *testing.T) {
		schema := `{"type":"record","name":"P","fields":[{"name":"impression_id","type":"string"},{"name":"payoff","type":["null","double"]}]}`
		got, err := read(t, event.Payoffs, schema, written(t, schema, map[string]any{"impression_id": "i-1", "payoff": 0.25}), payoffIn)
		require.NoError(t, err)
		require.Equal(t, event.Payoff{ID: []byte("i-1"), Payoff: 0.25}, got)
		_, err = read(t, event.Payoffs, schema, written(t, schema, map[string]any{"impression_id": "i-1", "payoff": nil}), payoffIn)
		require.ErrorContains(t, err, string(event.MissingPayoff))
		_, err = read(t, event.Payoffs, schema, written(t, schema, map[string]any{"impression_id": "i-1", "payoff": math.NaN()}), payoffIn)
		require.ErrorContains(t, err, string(event.NotFinite))
	})
}

// Contexts are read for learners that use them, from floats and lists of any numbers, with null where it may stand.
// Otherwise, fields of these names may have any type.
func TestRead_Context(t *testing.T) {
	const schema = `{"type":"record","name":"I","fields":[{"name":"impression_id","type":"string"},{"name":"features","type":{"type":"array","items":"float"}},{"name":"segment","type":["null","string"]},{"name":"candidates","type":{"type":"array","items":{"type":"record","name":"C","fields":[
			{"name":"item","type":"string"},{"name":"predicted","type":["null","double"]},{"name":"category","type":"string"},
			{"name":"features","type":["null",{"type":"array","items":["null","int"]}]}]}}}]}`
	value := written(t, schema, map[string]any{"impression_id": "i-1", "features": []float32{0.5}, "segment": "new",
		"candidates": []map[string]any{{"item": "a", "predicted": 2.5, "features": []any{3, nil}, "category": "news"},
			{"item": "b", "predicted": nil, "features": nil, "category": ""}}})
	h := httptest.NewServer(&server{schemas: map[string]string{"/schemas/ids/7": answer(schema, "")}})
	t.Cleanup(h.Close)
	r, err := New(Options{URL: h.URL, Formats: formats, Context: true, Login: func(r *http.Request) error { r.SetBasicAuth("u", "p"); return nil }})
	require.NoError(t, err)
	plain, f, err := r.one(t, event.Impressions, value)
	require.NoError(t, err)
	require.Nil(t, f)
	var got event.Impression
	d := event.NewFormatsDecoder(event.Limits{}, formats).WithContext()
	require.NoError(t, d.ImpressionIn(&got, []byte("i-1"), event.Content{Form: event.Avro, Value: value, Plain: plain}))
	require.Nil(t, got.Context.Fault)
	require.Equal(t, `{"impression_id":"i-1","candidates":[{"item":"a","features":[3,null],"predicted":2.5,"category":"news"},{"item":"b"}],`+
		`"features":[0.5],"segment":"new"}`, string(event.AppendImpression(nil, &got)))

	const other = `{"type":"record","name":"I","fields":[{"name":"impression_id","type":"string"},{"name":"predicted","type":"int"},
		{"name":"candidates","type":{"type":"array","items":{"type":"record","name":"C","fields":[
			{"name":"item","type":"string"},{"name":"features","type":{"type":"map","values":"double"}}]}}}]}`
	theirs := written(t, other, map[string]any{"impression_id": "i-1", "predicted": 3,
		"candidates": []map[string]any{{"item": "a", "features": map[string]float64{"price": 3}}}})
	got, err = read(t, event.Impressions, other, theirs, impressionIn)
	require.NoError(t, err)
	require.Len(t, got.Candidates, 1)
}

func TestRead_Faults(t *testing.T) {
	const flat = `{"type":"record","name":"P","fields":[{"name":"impression_id","type":"string"},{"name":"payoff","type":"double"}]}`
	value := written(t, flat, map[string]any{"impression_id": "i-1", "payoff": 0.25})
	for _, c := range []struct {
		schema string
		topic  event.Topic
		value  []byte
		reason event.Reason
	}{
		{flat, event.Payoffs, value[:len(value)-1], event.MalformedAvro},
		{flat, event.Payoffs, append(value[:len(value):len(value)], 0), event.MalformedAvro},
		{`"string"`, event.Payoffs, value, event.UnfitSchema},
		{`{"type":"record"`, event.Payoffs, value, event.UnfitSchema},
		{`{"type":"record","name":"P","fields":[{"name":"payoff","type":"string"}]}`, event.Payoffs, value, event.UnfitSchema},
		{`{"type":"record","name":"P","fields":[{"name":"time","type":"long"}]}`, event.Payoffs, value, event.UnfitSchema},
		{`{"type":"record","name":"I","fields":[{"name":"candidates","type":{"type":"array","items":"string"}}]}`, event.Impressions, value, event.UnfitSchema},
		{`{"type":"record","name":"I","fields":[{"name":"candidates","type":"string"}]}`, event.Impressions, value, event.UnfitSchema},
	} {
		r, _ := start(t, map[string]string{"/schemas/ids/7": answer(c.schema, "")})
		_, f, err := r.one(t, c.topic, c.value)
		require.NoError(t, err)
		require.NotNil(t, f, c.schema)
		require.Equal(t, c.reason, f.Reason, f.Detail)
		require.Less(t, len(f.Detail), 1000)
	}
	r, s := start(t, map[string]string{"/schemas/ids/8": answer(`syntax = "proto3";`, `,"schemaType":"PROTOBUF"`)})
	_, f, err := r.one(t, event.Payoffs, value)
	require.NoError(t, err)
	require.Equal(t, event.UnknownSchema, f.Reason)
	require.Contains(t, f.Detail, "schema 7")
	_, f, err = r.one(t, event.Payoffs, append([]byte{0, 0, 0, 0, 8}, value[5:]...))
	require.NoError(t, err)
	require.Equal(t, event.UnfitSchema, f.Reason)
	asked := s.asked.Load()
	for range 3 {
		_, _, err = r.one(t, event.Payoffs, append([]byte{0, 0, 0, 0, 8}, value[5:]...))
		require.NoError(t, err)
	}
	require.Equal(t, asked, s.asked.Load(), "what does not fit is asked for once")
	require.Equal(t, "Basic dTpw", s.login.Load())
}

// A registry that is away, or something else at its address, says nothing of a record.
func TestRead_FailsWhileTheRegistryIsIll(t *testing.T) {
	const flat = `{"type":"record","name":"P","fields":[{"name":"impression_id","type":"string"},{"name":"payoff","type":"double"}]}`
	r, s := start(t, map[string]string{"/schemas/ids/7": answer(flat, "")})
	value := written(t, flat, map[string]any{"impression_id": "i-1", "payoff": 0.25})
	s.ill.Store(true)
	_, f, err := r.one(t, event.Payoffs, value)
	require.Nil(t, f)
	require.ErrorContains(t, err, "does not give schema 7")
	s.ill.Store(false)
	plain, f, err := r.one(t, event.Payoffs, value)
	require.NoError(t, err)
	require.Nil(t, f)
	require.NotEmpty(t, plain)
	s.ill.Store(true)
	_, _, err = r.one(t, event.Payoffs, value)
	require.NoError(t, err, "what is known is not asked for again")
}

// Named types may stand in schemas of their own.
func TestRead_References(t *testing.T) {
	const item = `{"type":"record","name":"Offer","namespace":"com.shop","fields":[{"name":"item","type":"string"}]}`
	const whole = `{"type":"record","name":"Shown","fields":[{"name":"impression_id","type":"string"},{"name":"candidates","type":{"type":"array","items":"com.shop.Offer"}}]}`
	r, _ := start(t, map[string]string{
		"/schemas/ids/7":             answer(whole, `,"references":[{"name":"com.shop.Offer","subject":"offer","version":3}]`),
		"/subjects/offer/versions/3": answer(item, `,"subject":"offer","version":3,"id":6`),
	})
	value := append([]byte{0, 0, 0, 0, 7}, "\x06i-1\x04\x02a\x02b\x00"...)
	plain, f, err := r.one(t, event.Impressions, value)
	require.NoError(t, err)
	require.Nil(t, f)
	var i event.Impression
	require.NoError(t, event.NewDecoder(event.Limits{}).ImpressionIn(&i, []byte("i-1"), event.Content{Form: event.Avro, Value: value, Plain: plain}))
	require.Len(t, i.Candidates, 2)
}

// Features of null only take no bytes, so a short record could hold any number of them in each candidate.
func TestRead_FeaturesOfNullOnly(t *testing.T) {
	const schema = `{"type":"record","name":"I","fields":[{"name":"impression_id","type":"string"},{"name":"candidates","type":{"type":"array","items":
		{"type":"record","name":"C","fields":[{"name":"item","type":"string"},{"name":"features","type":{"type":"array","items":"null"}}]}}}]}`
	r, _ := start(t, map[string]string{"/schemas/ids/7": answer(schema, "")})
	r.context = true
	candidates := make([]any, 500)
	for i := range candidates {
		candidates[i] = map[string]any{"item": "a", "features": make([]any, 4096)}
	}
	value := written(t, schema, map[string]any{"impression_id": "i-1", "candidates": candidates})
	_, f, err := r.one(t, event.Impressions, value)
	require.NoError(t, err)
	require.Less(t, memcap.Allocated(func() { _, _, _ = r.one(t, event.Impressions, value) }), uint64(1<<20), "of %d bytes", len(value))
	require.Equal(t, event.UnfitSchema, f.Reason)
}

// No count in a record is believed.
func TestRead_HostileRecordsAreCheap(t *testing.T) {
	const schema = `{"type":"record","name":"I","fields":[{"name":"x","type":{"type":"array","items":"null"}},{"name":"impression_id","type":"string"},
		{"name":"candidates","type":{"type":"array","items":{"type":"record","name":"C","fields":[{"name":"item","type":"string"}]}}}]}`
	const empty = `{"type":"record","name":"I","fields":[{"name":"candidates","type":{"type":"array","items":{"type":"record","name":"C","fields":[]}}}]}`
	huge := binary.AppendVarint(nil, 1<<50)
	for name, c := range map[string]struct {
		schema string
		body   []byte
	}{
		"nulls":      {schema, huge},
		"text":       {schema, append([]byte{0}, huge...)},
		"candidates": {schema, append([]byte{0, 0}, huge...)},
		"no fields":  {empty, huge},
		"deep":       {schema, []byte(strings.Repeat("\x02", 1000))},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := start(t, map[string]string{"/schemas/ids/7": answer(c.schema, "")})
			value := append([]byte{0, 0, 0, 0, 7}, c.body...)
			_, f, err := r.one(t, event.Impressions, value)
			require.NoError(t, err)
			require.NotNil(t, f)
			took := memcap.Allocated(func() { _, _, _ = r.one(t, event.Impressions, value) })
			require.Less(t, took, uint64(1<<20))
		})
	}
}
