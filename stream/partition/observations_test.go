package partition

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// sightsOf reads all that headers say.
func sightsOf(t require.TestingT, headers ...[]byte) (all []Observation) {
	for _, h := range headers {
		seen, err := ReadSeen(h)
		require.NoError(t, err)
		all = append(all, seen...)
	}
	return all
}

// TestSeen_IsReadAsItWas: whatever is seen in whatever order, and however it is cut up, is read again.
func TestSeen_IsReadAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &observationLog{}
		begin := ObservationBegin{Writer: 7, Seq: 3, LoadedWriter: 6, LoadedSeal: 9, Inputs: [event.Inputs]int64{1, 2, -1}, Watermark: 100, Salt: math.MaxUint64,
			Alone: true, Program: "p", Settings: "{}"}
		s.Sealed, s.known = 9, true
		s.started(&begin)
		want := []Observation{{Kind: SeenBegun, Begin: begin}}
		var headers [][]byte
		var w, offset, last int64 = 100, 0, 0
		stand := make([]SourceAt, 40)
		add := func(x Observation) {
			x.Records, last = last, 0
			want = append(want, x)
		}
		for range rapid.IntRange(0, 200).Draw(t, "n") {
			switch rapid.IntRange(0, 10).Draw(t, "what") {
			case 0, 1:
				n := rapid.SampledFrom([]int64{1, 2, 31, 32, 400}).Draw(t, "records")
				for range n {
					s.stepped(w)
				}
				last += n
			case 2:
				by := rapid.Int64Range(1, 1000).Draw(t, "by")
				w += by
				s.acted(w)
				add(Observation{Kind: SeenWatermark, By: by})
			case 3:
				to := rapid.Int64Range(0, 1<<40).Draw(t, "offset")
				s.visit(state.ID{}, to)
				add(Observation{Kind: SeenVisit, Offset: to - offset})
				offset = to
			case 4:
				id := state.ID{1: byte(rapid.IntRange(0, 9).Draw(t, "id"))}
				s.visit(id, unknownOffset)
				add(Observation{Kind: SeenEnd, End: id})
			case 5:
				s.seal()
				add(Observation{Kind: SeenSealed})
				n := rapid.IntRange(1, 40).Draw(t, "segments")
				s.sent(n)
				add(Observation{Kind: SeenSent, N: int64(n)})
			case 6:
				p := rapid.IntRange(0, len(stand)-1).Draw(t, "source")
				c := SourceChange{Source: int32(p), At: SourceAt{Known: true, Whole: true, Writer: 5, Seq: stand[p].Seq + 1}}
				if rapid.IntRange(0, 4).Draw(t, "begins") == 0 {
					c.At = SourceAt{Known: true, Writer: 5, Seq: stand[p].Seq + 2, Parts: 3, Over: true, OverWriter: 4, OverSeq: 1}
				}
				was := stand[p]
				stand[p] = c.At
				s.turn(stand, nil)
				if was.Whole && c.At.Whole {
					c.By, c.At = 1, SourceAt{}
				}
				add(Observation{Kind: SeenEpoch, Sources: []SourceChange{c}})
			case 10:
				before := len(s.Tokens)
				s.stands(nil)
				if len(s.Tokens) == before { // not yet, or a source is known in part
					break
				}
				x := Observation{Kind: SeenStand}
				for p, at := range stand {
					if at.Known {
						x.Sources = append(x.Sources, SourceChange{Source: int32(p), At: at})
					}
				}
				add(x)
			case 9:
				s.walked(3)
				add(Observation{Kind: SeenWalked, N: 3})
			case 8:
				headers = append(headers, s.take(nil))
			}
		}
		stored := s.appendStored(nil, 77)
		headers = append(headers, s.take(nil))
		require.Equal(t, want, sightsOf(t, headers...))
		var loaded observationLog
		require.Equal(t, uint32(77), loaded.load(stored))
		require.Equal(t, [3]int64{int64(s.Unsent), s.Visited, int64(s.Sealed)}, [3]int64{int64(loaded.Unsent), loaded.Visited, int64(loaded.Sealed)})
		require.Equal(t, []any{uint32(7), s.Sealed, true}, []any{loaded.Writer, loaded.Sealed, loaded.known})
	})
}

// TestSeen_SaysWhichEstimatesAnEpochMade: of any number of them.
func TestSeen_SaysWhichEstimatesAnEpochMade(t *testing.T) {
	s := &observationLog{on: true}
	many := make([]int, 40)
	for n := range many {
		many[n] = 2 * n
	}
	all := [][]int{nil, {0}, {1, 3}, many, nil}
	for seq, made := range all {
		s.turn([]SourceAt{{Known: true, Whole: true, Writer: 1, Seq: int64(seq)}}, made)
	}
	got := sightsOf(t, s.Tokens)
	require.Len(t, got, len(all))
	for n, made := range all {
		require.Equal(t, made, got[n].Made)
	}
}

// TestSeen_BeginsAgainBehindAGap: an owner's observations during adoption are dropped beyond a size, and the header says so.
// Later ones are carried, beginning with a snapshot of sources. The owner's beginning is never dropped before it was carried.
func TestSeen_BeginsAgainBehindAGap(t *testing.T) {
	s := &observationLog{}
	s.started(&ObservationBegin{Writer: 7, Program: "p"})
	fill := func(upTo int64) (all []Observation) {
		for s.gaps < upTo {
			s.seal()
			s.sent(1)
			require.Less(t, len(s.Tokens), maxSeen+16)
		}
		s.seal()
		s.stands(nil)
		all = sightsOf(t, s.Tokens)
		n := len(all)
		require.Equal(t, []ObservationKind{SeenSealed, SeenStand}, []ObservationKind{all[n-2].Kind, all[n-1].Kind})
		return all
	}
	for n := range int64(3) {
		all := fill(n + 1)
		require.Equal(t, SeenBegun, all[0].Kind)
		require.Equal(t, ObservationBegin{Writer: 7, Program: "p"}, all[0].Begin)
		require.Equal(t, SeenLost, all[1].Kind)
		require.InDelta(t, s.Sealed, all[1].N, 2)
		require.Less(t, len(all), 7)
	}
	s.take(nil)
	all := fill(4)
	require.Equal(t, SeenLost, all[0].Kind, "the beginning was carried")
	require.Less(t, len(all), 6)
}

// FuzzSeen: nothing that a header may hold is worse than unreadable.
func FuzzSeen(f *testing.F) {
	s := &observationLog{}
	s.started(&ObservationBegin{Program: "p"})
	f.Add(s.Tokens)
	f.Add([]byte{seenVisits<<5 | 3, 1, 2, 3, seenEpoch << 5, 1, 0, 3, 1, 2, 3, 4, 5, 6})
	f.Fuzz(func(t *testing.T, header []byte) {
		seen, _ := ReadSeen(header)
		require.LessOrEqual(t, len(seen), len(header))
		(&observationLog{}).load(hex.AppendEncode(nil, header))
	})
}

// BenchmarkSeen measures the cost of observations per ranking, at 50 rankings/s of a partition of 12 that pool. Each has 10 checkpoints and
// 4 epochs a second. An impression ends for each ranked one, half of them with a selection. The aim is at most 50 ns, 13 bytes with the
// header, and no allocation.
func BenchmarkSeen(b *testing.B) {
	s := &observationLog{}
	s.started(&ObservationBegin{})
	stand := make([]SourceAt, 12)
	for p := range stand {
		stand[p] = SourceAt{Known: true, Whole: true, Writer: 1, Seq: 100_000}
	}
	s.turn(stand, nil)
	header := s.take(nil)
	var w, bytes int64
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		s.stepped(w)
		if i%2 == 0 {
			s.stepped(w) // a selection
		}
		if i%50 == 0 { // the walk, once a second
			w += 10
			s.acted(w)
			for k := range 25 {
				s.visit(state.ID{byte(k)}, unknownOffset)
			}
			for k := range 25 {
				s.visit(state.ID{}, int64(i+k*7%25))
			}
		}
		if i%5 == 0 {
			w += 100
			s.acted(w)
			s.seal()
			s.sent(1)
		}
		if i%12 == 0 {
			for p := range stand {
				stand[p].Seq += 2
			}
			s.turn(stand, nil)
		}
		if header = s.take(header[:0]); len(header) > 0 {
			bytes += int64(len(header)) + 1 + 4 + 1 // lengths and the header's name
		}
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes/ranking")
}
