package data

import (
	"archive/zip"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
)

func sample(t testing.TB) []Rating {
	t.Helper()
	f, err := os.Open("testdata/sample.inter")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	ratings, err := ParseRatings(f)
	require.NoError(t, err)
	return ratings
}

func TestRatingsAreRead(t *testing.T) {
	ratings := sample(t)
	require.Len(t, ratings, 9)
	require.Equal(t, Rating{"u1", "f3", 3, 1010}, ratings[2])
	var payoffs []float64
	for _, r := range ratings[:5] {
		payoffs = append(payoffs, r.Payoff())
	}
	require.Equal(t, []float64{0, 0.25, 0.5, 1, 0.75}, payoffs)
	require.Equal(t, map[string]int{"f1": 3, "f2": 3, "f3": 2, "f4": 1}, Popularity(ratings))
	require.InDeltaMapValues(t, map[string]float64{"f1": 1.0 / 3, "f2": 1.0 / 3, "f3": 0.75, "f4": 1}, Means(ratings), 1e-12)
	from, to := Span(ratings)
	require.Equal(t, 8000*time.Second, to.Sub(from))
}

func TestFaultsNameTheirLine(t *testing.T) {
	for name, lines := range map[string]string{
		"line 1: ":                           "user\titem\n",
		"line 2: 3 fields":                   header + "\nu\tf\t3\n",
		"line 2: no user":                    header + "\n\tf\t3\t1\n",
		`line 2: rating "6"`:                 header + "\nu\tf\t6\t1\n",
		`line 2: rating "NaN"`:               header + "\nu\tf\tNaN\t1\n",
		`line 3: timestamp "x"`:              header + "\nu\tf\t3\t1\nu\tg\t3\tx\n",
		`line 2: timestamp "99999999999999"`: header + "\nu\tf\t3\t99999999999999\n",
		"line 3: user u has rated":           header + "\nu\tf\t3\t1\nu\tf\t3\t1\n",
	} {
		_, err := ParseRatings(strings.NewReader(lines))
		require.ErrorIs(t, err, ErrFormat, name)
		require.ErrorContains(t, err, name)
	}
	_, err := ParseRatings(strings.NewReader(header + "\n" + strings.Repeat("x", 1<<20)))
	require.ErrorContains(t, err, "line 2")
	_, err = ParseRatings(strings.NewReader(""))
	require.ErrorIs(t, err, ErrFormat)
}

func TestGapsAreThoseOfOneUserAndAboveZero(t *testing.T) {
	require.Equal(t, []time.Duration{time.Second, 10 * time.Second, 3590 * time.Second}, Gaps(sample(t)))
}

func stream(t testing.TB, ratings []Rating, config Config) *Stream {
	t.Helper()
	s, err := NewStream(ratings, config)
	require.NoError(t, err)
	return s
}

func all(s *Stream) (impressions []*Impression) {
	for im, ok := s.Next(); ok; im, ok = s.Next() {
		impressions = append(impressions, im)
	}
	return impressions
}

// TestStreamIsWhatTheDataSays checks every impression against the file, by looking for its rating in all of it.
func TestStreamIsWhatTheDataSays(t *testing.T) {
	ratings := sample(t)
	s := stream(t, ratings, Config{Seed: 1, Impressions: 4000, Candidates: 3, MinRatings: 3})
	require.Equal(t, 2, s.Users(), "u3 has too few ratings")
	require.Equal(t, 2*time.Second, s.Config().Interval)
	users, films, windows, delays := map[string]int{}, map[string]int{}, map[int]int{}, map[time.Duration]int{}
	from, _ := Span(ratings)
	impressions := all(s)
	require.Len(t, impressions, 4000)
	for k, im := range impressions {
		require.Equal(t, from.Add(time.Duration(k)*2*time.Second), im.Time)
		require.Len(t, im.Candidates, 3)
		seen := map[string]bool{}
		for i, c := range im.Candidates {
			require.False(t, seen[c.Item])
			seen[c.Item] = true
			at := slices.IndexFunc(ratings, func(r Rating) bool { return r.User == im.User && r.Film == c.Item })
			require.GreaterOrEqual(t, at, 0, "user %s has not rated %s", im.User, c.Item)
			require.Equal(t, (ratings[at].Value-1)/4, im.Payoffs[i])
			var popularity float64
			for _, r := range ratings {
				if r.Film == c.Item {
					popularity++
				}
			}
			require.Equal(t, popularity, c.Utility)
			if im.User == "u1" {
				films[c.Item]++
			}
		}
		users[im.User]++
		windows[im.Window]++
		delays[im.Delay]++
	}
	// Hoeffding: a share of n draws is off by more than this with a probability below 1e-8.
	slack := func(n int) float64 { return math.Sqrt(19.2 / (2 * float64(n))) }
	share := func(count, n int, want float64) {
		t.Helper()
		require.InDelta(t, want, float64(count)/float64(n), slack(n))
	}
	share(users["u1"], 4000, 0.5)
	for _, film := range []string{"f1", "f2", "f3", "f4"} {
		share(films[film], users["u1"], 0.75)
	}
	for w, weight := range map[int]float64{1: 1, 2: 0.7, 3: 0.49} {
		share(windows[w], 4000, weight/2.19)
	}
	for _, gap := range Gaps(ratings) {
		share(delays[gap], 4000, 1.0/3)
	}
}

func TestSelectionIsThePopularFilmWithinTheWindow(t *testing.T) {
	im := &Impression{
		Candidates: []simulate.Candidate{{Item: "rare", Utility: 1}, {Item: "hit", Utility: 9}, {Item: "usual", Utility: 5}},
		Payoffs:    []float64{1, 0, 0.5}, Window: 2,
	}
	require.Equal(t, 2, im.Select([]int{0, 2, 1}))
	require.Equal(t, 1, im.Select([]int{0, 1, 2}))
	require.Equal(t, 0.5, im.BestPayoff(), "with two in view, the rare film cannot be the one selected")
}

// TestOncePairsPayOnce: a film that was paid for is not shown to the user again, nor anywhere while it may be selected. The stream says
// when there is nobody left.
func TestOncePairsPayOnce(t *testing.T) {
	ratings := sample(t)
	s := stream(t, ratings, Config{Seed: 2, Impressions: 4, Candidates: 2, MinRatings: 3, Once: true})
	selected := map[[2]string]bool{}
	n := 0
	for im, ok := s.Next(); ok; im, ok = s.Next() {
		for _, c := range im.Candidates {
			require.False(t, selected[[2]string{im.User, c.Item}])
		}
		k := im.Select([]int{0, 1})
		selected[[2]string{im.User, im.Candidates[k].Item}] = true
		s.Answered(im, k)
		n++
	}
	require.NoError(t, s.Err())
	require.Equal(t, 4, n)

	s = stream(t, ratings, Config{Seed: 2, Impressions: 100, Candidates: 2, MinRatings: 3, Once: true})
	n = 0
	for im, ok := s.Next(); ok; im, ok = s.Next() {
		n++
		_ = im // none is answered, so that all films are in front of somebody soon
	}
	require.ErrorIs(t, s.Err(), ErrConfig)
	require.LessOrEqual(t, n, 4)
}

func TestFilmsAreRead(t *testing.T) {
	films, err := ParseFilms(strings.NewReader(filmsHeader + "\n7\tA Film\t1960\tAction War\n9\tAnother\t\tunknown\n"))
	require.NoError(t, err)
	require.Len(t, films, 2)
	x := films["7"].Features()
	require.Len(t, x, 1+len(Genres))
	require.InDelta(t, 0.5, x[0], 1e-12)
	var genres []string
	for i, is := range x[1:] {
		if is == 1 {
			genres = append(genres, Genres[i])
		}
	}
	require.Equal(t, []string{"Action", "War"}, genres)
	require.Equal(t, make([]float64, 1+len(Genres)), films["9"].Features())
	for name, lines := range map[string]string{
		"line 1: ":            "item_id\n",
		"line 2: 3 fields":    filmsHeader + "\n7\tA\t1960\n",
		"line 2: year 1700":   filmsHeader + "\n7\tA\t1700\tWar\n",
		`line 2: genre "Odd"`: filmsHeader + "\n7\tA\t1960\tOdd\n",
	} {
		_, err := ParseFilms(strings.NewReader(lines))
		require.ErrorIs(t, err, ErrFormat, name)
		require.ErrorContains(t, err, name)
	}
}

// TestSameSeedSameStream: from another order of the file too; and another seed gives another stream.
func TestSameSeedSameStream(t *testing.T) {
	ratings := sample(t)
	config := Config{Seed: 3, Impressions: 300, Candidates: 2, MinRatings: 2}
	want := all(stream(t, ratings, config))
	shuffled := slices.Clone(ratings)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	require.Equal(t, want, all(stream(t, shuffled, config)))
	config.Seed++
	require.NotEqual(t, want, all(stream(t, ratings, config)))
}

// TestStreamStaysTheSame pins the first impressions: results that were published must stay reproducible.
func TestStreamStaysTheSame(t *testing.T) {
	s := stream(t, sample(t), Config{Seed: 1, Impressions: 10, Candidates: 3, MinRatings: 3})
	var got []string
	for range 3 {
		im, ok := s.Next()
		require.True(t, ok)
		line := im.ID + " " + im.User
		for _, c := range im.Candidates {
			line += " " + c.Item
		}
		got = append(got, line+" "+im.Delay.String()+" "+strings.Repeat("w", im.Window))
	}
	require.Equal(t, []string{"i-0 u2 f1 f2 f3 59m50s ww", "i-1 u1 f1 f3 f2 1s w", "i-2 u1 f4 f1 f3 59m50s w"}, got)
}

func TestImpossibleStreamsAreRefused(t *testing.T) {
	ratings := sample(t)
	for name, config := range map[string]Config{
		"ratings or more":     {Candidates: 5, MinRatings: 4},
		"no user has 20":      {},
		"impressions":         {Impressions: -1},
		"window distribution": {WindowRatio: 2, Candidates: 2, MinRatings: 2},
	} {
		_, err := NewStream(ratings, config)
		require.ErrorIs(t, err, ErrConfig, name)
		require.ErrorContains(t, err, name)
	}
	_, err := NewStream(ratings[:1], Config{Candidates: 1, MinRatings: 1})
	require.ErrorContains(t, err, "no delay")
	_, err = NewStream(nil, Config{})
	require.ErrorIs(t, err, ErrConfig)
}

func TestOnlyTheRealRatingsAreUnpacked(t *testing.T) {
	dir := t.TempDir()
	_, err := ratingsFile.unpack(dir)
	require.ErrorContains(t, err, "0 wheels")

	f, err := os.Create(filepath.Join(dir, "recbole.whl"))
	require.NoError(t, err)
	w := zip.NewWriter(f)
	member, err := w.Create(members + ratingsFile.name)
	require.NoError(t, err)
	_, err = member.Write([]byte(header + "\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	_, err = ratingsFile.unpack(dir)
	require.ErrorIs(t, err, ErrChecksum)
}

func TestMissingPythonSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Fetch(t.Context(), t.TempDir(), filmsFile)
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "apt-get install python3-pip")
}

func BenchmarkNext(b *testing.B) {
	s := stream(b, sample(b), Config{Impressions: math.MaxInt, Candidates: 3, MinRatings: 3, Interval: time.Second})
	b.ReportAllocs()
	for b.Loop() {
		s.Next()
	}
}
