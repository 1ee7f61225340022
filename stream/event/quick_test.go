package event

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// plain are impressions as producers usually write them: all must be read quickly.
var plain = []string{
	`{"impression_id":"i-1","learner":"feed","time":"2026-11-21T10:00:00.000Z","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":-7}]}`,
	`{"candidates": [{"utility": 0.84712391827318234, "item": "a"}, {"item": "é", "utility": 1e-7}], "impression_id": "i-1"}`,
	"\t{\"impression_id\" : \"i-1\" ,\n\"x\":12.5e3, \"user\":\"\\u00e9\", \"y\":null,\"candidates\":[ {\"item\":\"a\",\"z\":true} ] } ",
	`{"impression_id":"i-1","candidates":[{"item":"a","utility":0},{"item":"b","utility":-0},{"item":"c","utility":0.000000000000001},{"item":"d","utility":123456789012345},{"item":"e","utility":1234567890123456},{"item":"f","utility":9007199254740993}]}`,
}

// odd are impressions that are left to the full reading, sound ones among them.
var odd = []string{
	`{"impression_id":"i-1","learner":null,"candidates":[{"item":"a"}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"\u0061"}]}`,
	`{"impression_id":"i-1","x":{},"candidates":[{"item":"a"}]}`,
	`{"impression_id":"i-1","impression_id":"i-1","candidates":[{"item":"a"}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"a"}],"candidates":[{"item":"b"}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"a"},{"item":"a"}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"a","utility":01}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"a","utility":1.}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"a","utility":1e999}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"a","utility":-}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"a","utility":1},{"item":"b"}]}`,
	`{"impression_id":"i-1","candidates":[{"item":""}]}`,
	`{"impression_id":"i-1","candidates":[]}`,
	`{"impression_id":"i-2","candidates":[{"item":"a"}]}`,
	`{"impression_id":"i-1","candidates":[{"item":"a"}]}x`,
	"{\"impression_id\":\"i-1\",\"candidates\":[{\"item\":\"\xff\"}]}",
	``, `{`, `{}`, `[]`, `{"impression_id":"i-1"`, `{"impression_id":"i-1","candidates":[{"item":"a","utility":1`,
}

func TestUsualImpressionsAreReadQuickly(t *testing.T) {
	d := NewDecoder(Limits{})
	for _, value := range plain {
		require.True(t, d.quickImpression(&Impression{}, []byte("i-1"), []byte(value)), "%s", value)
		agree(t, d, []byte("i-1"), []byte(value))
	}
	for _, value := range odd {
		require.False(t, d.quickImpression(&Impression{}, []byte("i-1"), []byte(value)), "%s", value)
	}
}

// agree holds what is read quickly against the full reading.
func agree(t *testing.T, d *Decoder, key, value []byte) {
	t.Helper()
	var got, want Impression
	if !d.quickImpression(&got, key, value) {
		return
	}
	f := d.impression(&want, key, value)
	require.Nil(t, f, "read quickly, refused in full: %q", value)
	require.Equal(t, fmt.Sprintf("%q", fmt.Sprintf("%+v", want)), fmt.Sprintf("%q", fmt.Sprintf("%+v", got)), "%q", value)
}

func FuzzQuickImpression(f *testing.F) {
	for _, values := range [][]string{plain, odd} {
		for _, value := range values {
			f.Add([]byte("i-1"), []byte(value))
		}
	}
	limited, free := NewDecoder(Limits{MaxCandidates: 5, MaxRecordBytes: 4096}), NewDecoder(Limits{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		agree(t, limited, key, value)
		agree(t, free, key, value)
	})
}

// BenchmarkReading holds the quick reading of an impression of 20 candidates against the full one.
func BenchmarkReading(b *testing.B) {
	r := Impression{ID: []byte("i-000000000123456"), HasUtilities: true}
	for i := range 20 {
		r.Candidates = append(r.Candidates, Candidate{Item: fmt.Appendf(nil, "item-%06d", i), Utility: float64(i*31+17) / 1e5})
	}
	value := AppendImpression(nil, &r)
	d := NewDecoder(Limits{MaxCandidates: 10000, MaxRecordBytes: 1 << 20})
	var dst Impression
	run := func(name string, read func() bool) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				dst = Impression{Candidates: dst.Candidates[:0]}
				if !read() {
					b.Fatal("refused")
				}
			}
		})
	}
	run("quick", func() bool { return d.quickImpression(&dst, r.ID, value) })
	run("full", func() bool { return d.impression(&dst, r.ID, value) == nil })
}
