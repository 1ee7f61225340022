package event_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// typical is an impression of n candidates with utilities of full precision; with 20 it has 1.1 KB.
func typical(n int) (key, value []byte, r *event.Impression) {
	random := rand.New(rand.NewPCG(1, 2))
	r = &event.Impression{
		ID: []byte("i-000000000123456"), Learner: []byte("feed"), Time: 1795255200123, HasTime: true, HasUtilities: true,
	}
	for i := range n {
		r.Candidates = append(r.Candidates, event.Candidate{
			Item: fmt.Appendf(nil, "item-%06d", i), Utility: random.Float64(),
		})
	}
	return r.ID, event.AppendImpression(nil, r), r
}

// answer is a ranking of the impression, with propensities where asked.
func answer(r *event.Impression, propensities bool) *event.Ranking {
	a := &event.Ranking{ID: r.ID, Learner: r.Learner, Time: r.Time, Decision: event.Decision{
		Group: "ranker", Policy: "elimination", Delay: "qpmd", Partition: 3, Offset: 1042, Layout: 1, Instance: -1,
		Seed: 0x9f00112233445566, SelectionDeadline: r.Time + 1, HasSelection: true, PayoffDeadline: r.Time + 2,
	}}
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range r.Candidates {
		a.Items = append(a.Items, c.Item)
		if propensities {
			a.Decision.Propensities = append(a.Decision.Propensities, random.Float64()/20)
		}
	}
	return a
}

func BenchmarkDecodeImpression(b *testing.B) {
	for _, n := range []int{20, 1000, 10000} {
		b.Run(fmt.Sprintf("candidates=%d", n), func(b *testing.B) {
			key, value, _ := typical(n)
			d := event.NewDecoder(event.Limits{MaxCandidates: 10000, MaxRecordBytes: 1 << 20})
			var dst event.Impression
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Impression(&dst, key, value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("protobuf/candidates=20", func(b *testing.B) {
		key, _, r := typical(20)
		value := event.AppendProtobufImpression(nil, r)
		d := event.NewFormatsDecoder(event.Limits{MaxCandidates: 10000, MaxRecordBytes: 1 << 20}, event.Formats{event.Protobuf})
		var dst event.Impression
		b.SetBytes(int64(len(value)))
		b.ReportAllocs()
		for b.Loop() {
			if err := d.Impression(&dst, key, value); err != nil {
				b.Fatal(err)
			}
		}
	})
	// For comparison: the standard library, which checks nothing but types.
	b.Run("encoding-json", func(b *testing.B) {
		_, value, _ := typical(20)
		b.SetBytes(int64(len(value)))
		b.ReportAllocs()
		for b.Loop() {
			var dst struct {
				ID         string `json:"impression_id"`
				Learner    string `json:"learner"`
				Time       string `json:"time"`
				Candidates []struct {
					Item    string   `json:"item"`
					Utility *float64 `json:"utility"`
				} `json:"candidates"`
			}
			if err := json.Unmarshal(value, &dst); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodePayoff(b *testing.B) {
	r := &event.Payoff{ID: []byte("i-000000000123456"), Payoff: 0.8, Time: 1795255200123, HasTime: true, Item: []byte("item-000001")}
	key, value := r.ID, event.AppendPayoff(nil, r)
	d := event.NewDecoder(event.Limits{})
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Payoff(r, key, value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRanking(b *testing.B) {
	_, _, r := typical(20)
	value := event.AppendRanking(nil, answer(r, true))
	d := event.NewDecoder(event.Limits{})
	var dst event.Ranking
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Ranking(&dst, value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeImpression(b *testing.B) {
	_, value, r := typical(20)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		value = event.AppendImpression(value[:0], r)
	}
}

func BenchmarkEncodeRanking(b *testing.B) {
	_, _, r := typical(20)
	for _, propensities := range []bool{false, true} {
		b.Run(fmt.Sprintf("propensities=%t", propensities), func(b *testing.B) {
			a := answer(r, propensities)
			value := event.AppendRanking(nil, a)
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				value = event.AppendRanking(value[:0], a)
			}
		})
	}
}

func BenchmarkTime(b *testing.B) {
	text := []byte("2026-11-21T10:00:00.123Z")
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := event.ParseTime(text); !ok {
				b.Fatal("refused")
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			text = event.AppendTime(text[:0], 1795255200123)
		}
	})
}
