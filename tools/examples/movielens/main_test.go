package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/evaluate"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/tools/examples/movielens/data"
)

// madeUp writes ratings of nobody: 60 users have each rated 30 of 80 films, the better the less known they are.
func madeUp(t *testing.T) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	text := &strings.Builder{}
	text.WriteString("user_id:token\titem_id:token\trating:float\ttimestamp:float\n")
	for user := range 60 {
		at := 1_000_000 + 50*user
		rated := map[int]bool{}
		for len(rated) < 30 {
			// The lower of two draws: films of low number are better known.
			film := min(rng.IntN(80), rng.IntN(80))
			if rated[film] {
				continue
			}
			rated[film] = true
			at += 1 + rng.IntN(90)
			fmt.Fprintf(text, "u%d\tf%d\t%d\t%d\n", user, film, min(5, 1+film/20+rng.IntN(2)), at)
		}
	}
	path := filepath.Join(t.TempDir(), "ratings.inter")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// TestMovielens_EachPolicyRanksEveryImpressionOnceAndTheAccountAddsUp plays a small, made-up data set in front of real worker processes.
// run itself checks that the accounts add up.
func TestMovielens_EachPolicyRanksEveryImpressionOnceAndTheAccountAddsUp(t *testing.T) {
	t.Parallel()
	ratings := madeUp(t)
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		var out, errOut bytes.Buffer
		err := run(t.Context(), []string{"-ratings", ratings, "-kafka", env.Kafka, "-redis", env.Redis, "-impressions", "1000",
			"-partitions", "2", "-policies", "utility,greedy,moss", "-timeout", "60s", "-json"}, &out, &errOut)
		require.NoError(t, err, errOut.String())
		var r report
		require.NoError(t, json.Unmarshal(out.Bytes(), &r), out.String())
		require.Equal(t, 60, r.Users)
		require.Equal(t, asInTheData, r.Late)
		require.Len(t, r.Policies, 3)
		for _, p := range r.Policies {
			require.EqualValues(t, 1000, p.PayoffsApplied)
			require.EqualValues(t, 1000, p.PayoffsFed+p.PayoffsQueued)
			require.Positive(t, p.PayoffsFed)
			require.LessOrEqual(t, p.Payoff, p.PayoffBest)
			require.Positive(t, p.ImpressionsPerSecond)
			var tenths float64
			for _, mean := range p.Tenths {
				tenths += mean / 10
			}
			require.InDelta(t, p.Payoff, tenths, 1e-9)
		}
		utility, greedy := r.Policies[0], r.Policies[1]
		require.Equal(t, "utility", utility.Policy)
		require.Zero(t, utility.Gain, "its order is the baseline")
		require.Zero(t, utility.GainStderr)
		require.Equal(t, utility.PayoffUtilityOrder, greedy.PayoffUtilityOrder, "they meet the same users")
		require.Equal(t, utility.PayoffBest, greedy.PayoffBest)
		judged := r.Policies[2].Judged
		require.NotNil(t, judged)
		require.EqualValues(t, 1000, judged.Log.Judged, "payoffs always come: none is too young")
		require.InDelta(t, r.Policies[2].Payoff, *judged.Log.Logged, 1e-9, "it got what the log says")
		require.Zero(t, judged.Check.LoggingMaxDeviation)
		require.Contains(t, errOut.String(), "100 %")
		requireClean(t, env)
	})
}

// requireClean makes sure that no key, topic or group of a run is left. A busy broker shows a topic for some time after it is deleted.
func requireClean(t *testing.T, env testenv.Env) {
	t.Helper()
	db := redis.NewClient(&redis.Options{Addr: env.Redis})
	defer db.Close()
	keys, err := db.Keys(t.Context(), "{movielens-*").Result()
	require.NoError(t, err)
	require.Empty(t, keys)
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(env.Kafka), Transport: transport}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		meta, err := client.Metadata(t.Context(), &kafka.MetadataRequest{})
		require.NoError(c, err)
		for _, topic := range meta.Topics {
			assert.NotContains(c, topic.Name, "movielens-")
		}
		groups, err := client.ListGroups(t.Context(), &kafka.ListGroupsRequest{})
		require.NoError(c, err)
		for _, group := range groups.Groups {
			assert.NotContains(c, group.GroupID, "movielens-")
		}
	}, 2*time.Minute, 100*time.Millisecond)
}

// TestMovielens_FaultsOfTheWorkerAreShown: a worker that cannot start ends the run, with the end of its log.
func TestMovielens_FaultsOfTheWorkerAreShown(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	env.Mini.RequireAuth("secret")
	var out, errOut bytes.Buffer
	err := run(t.Context(), []string{"-ratings", madeUp(t), "-kafka", env.Kafka, "-redis", env.Redis, "-impressions", "10",
		"-partitions", "1", "-policies", "greedy", "-timeout", "5s", "-keep"}, &out, &errOut)
	require.ErrorContains(t, err, "policy greedy: starting the worker")
	require.ErrorContains(t, err, "NOAUTH")
	require.Empty(t, out.String())
}

func TestFlagsAreValidatedAllAtOnce(t *testing.T) {
	var errOut bytes.Buffer
	_, err := parseOptions([]string{"-impressions", "0", "-partitions", "-1", "-unanswered", "0", "-policies", "greedy,moses,greedy",
		"-late", "soon", "-kafka", "nowhere", "-redis", "there", "-timeout", "0s"}, &errOut)
	require.ErrorIs(t, err, errUsage)
	lines := strings.Split(strings.TrimSpace(errOut.String()), "\n")
	require.Len(t, lines, 9, errOut.String())
	for i, flag := range []string{"-impressions", "-partitions", "-unanswered", "-policies: \"moses\"", "-policies: greedy", "-late",
		"-kafka", "-redis", "-timeout"} {
		require.Contains(t, lines[i], flag)
	}
	for _, args := range [][]string{{"more"}, {"-nonsense"}} {
		_, err := parseOptions(args, &errOut)
		require.ErrorIs(t, err, errUsage)
	}
	opt, err := parseOptions([]string{"-late", "100", "-policies", "utility, greedy"}, &errOut)
	require.NoError(t, err)
	require.Equal(t, []string{"utility", "greedy"}, opt.policies)
	require.Equal(t, 100, opt.late)
	require.Equal(t, 100, opt.patience(), "nobody pays before having seen the list")
}

func player(t *testing.T, late int) *players {
	t.Helper()
	f, err := os.Open(madeUp(t))
	require.NoError(t, err)
	defer f.Close()
	ratings, err := data.ParseRatings(f)
	require.NoError(t, err)
	s, err := data.NewStream(ratings, data.Config{Seed: 1, Impressions: 500})
	require.NoError(t, err)
	return newPlayers(s, data.Means(ratings), nil, late)
}

// TestPayoffsAreExactlyThatLate: a payoff is due with the impression that comes so many later, and before it.
func TestPayoffsAreExactlyThatLate(t *testing.T) {
	p := player(t, 7)
	var moments []int64
	last := 0
	p.last = func() { last++ }
	var due []int64
	for n := range 500 {
		im, at, along := p.Impression(n)
		require.Empty(t, along)
		moments = append(moments, at)
		var items [][]byte
		for _, c := range im.Candidates {
			items = append(items, c.Item)
		}
		require.Zero(t, last)
		records, err := p.Respond(n, items)
		require.NoError(t, err)
		require.Len(t, records, 2)
		require.Equal(t, at, records[0].At, "users select at once")
		require.Equal(t, records[0].Selection.Item, records[1].Payoff.Item)
		due = append(due, records[1].At)
	}
	for n := range 500 - 7 {
		require.Equal(t, moments[n+7], due[n])
	}
	require.Equal(t, 1, last)
	require.Zero(t, p.tally.overdue)
	require.Empty(t, p.open)
}

// TestTally_AgainstTheDefinitions adds up again the figures of each impression.
func TestTally_AgainstTheDefinitions(t *testing.T) {
	p := player(t, -1)
	var payoff, byUtility, byMeans, best, gain, gains float64
	for n := range 500 {
		_, _, _ = p.Impression(n)
		im := p.open[n]
		order := rand.New(rand.NewPCG(3, uint64(n))).Perm(len(im.Candidates))
		var items [][]byte
		for _, i := range order {
			items = append(items, []byte(im.Candidates[i].Item))
		}
		popular := make([]int, len(im.Candidates)) // by selection sort
		for i := range popular {
			popular[i] = i
		}
		for i := range popular {
			for j := i + 1; j < len(popular); j++ {
				a, b := im.Candidates[popular[i]], im.Candidates[popular[j]]
				if b.Utility > a.Utility || b.Utility == a.Utility && b.Item > a.Item {
					popular[i], popular[j] = popular[j], popular[i]
				}
			}
		}
		got, base := im.Payoffs[im.Select(order)], im.Payoffs[im.Select(popular)]
		payoff, byUtility, best = payoff+got, byUtility+base, best+im.BestPayoff()
		known, knownPayoff := -1.0, 0.0
		for i, c := range im.Candidates {
			// To select it, a user must see it and nobody better liked: enough worse liked ones fill the window up.
			worse := 0
			for _, other := range im.Candidates {
				if other.Utility < c.Utility || other.Utility == c.Utility && other.Item < c.Item {
					worse++
				}
			}
			if mean := p.means[c.Item]; worse >= im.Window-1 && mean > known {
				known, knownPayoff = mean, im.Payoffs[i]
			}
		}
		byMeans += knownPayoff
		gain, gains = gain+got-base, gains+(got-base)*(got-base)
		_, err := p.Respond(n, items)
		require.NoError(t, err)
	}
	require.InDelta(t, payoff/500, p.tally.mean(p.tally.payoff), 1e-12)
	require.InDelta(t, byUtility/500, p.tally.mean(p.tally.byUtility), 1e-12)
	require.InDelta(t, best/500, p.tally.mean(p.tally.best), 1e-12)
	require.InDelta(t, byMeans/500, p.tally.mean(p.tally.byMeans), 1e-12)
	mean, stderr := p.tally.gain()
	require.InDelta(t, gain/500, mean, 1e-12)
	require.InDelta(t, (gains/500-mean*mean)/500, stderr*stderr, 1e-12)
}

func TestRespondRefusesRankingsOfOthersImpressions(t *testing.T) {
	_, err := player(t, -1).Respond(3, nil)
	require.ErrorContains(t, err, "not open")
}

// TestAccountsThatDoNotAddUpAreRefused: any one number that is off by one is noticed, and named.
func TestAccountsThatDoNotAddUpAreRefused(t *testing.T) {
	good := func() (account, platform.Progress) {
		return account{fed: 6, queued: 4, counts: map[string]int64{"impressions.read": 10, "impressions.paid": 10,
				"selections.read": 10, "selections.joined": 10, "payoffs.read": 10, "payoffs.applied": 10}},
			platform.Progress{Impressions: 10, Rankings: 10, Selections: 10, Payoffs: 10}
	}
	a, sent := good()
	require.NoError(t, a.check(sent))
	for name := range a.counts {
		a, sent := good()
		a.counts[name]--
		require.ErrorContains(t, a.check(sent), name+": 9 instead of 10")
	}
	for what, spoil := range map[string]func(*account, *platform.Progress){
		"payoffs fed and payoffs in queues": func(a *account, _ *platform.Progress) { a.fed++ },
		"rankings":                          func(_ *account, s *platform.Progress) { s.Rankings-- },
		"selections sent":                   func(_ *account, s *platform.Progress) { s.Selections++ },
		"payoffs sent":                      func(_ *account, s *platform.Progress) { s.Payoffs++ },
	} {
		a, sent := good()
		spoil(&a, &sent)
		require.ErrorContains(t, a.check(sent), what+": ")
	}
}

func TestTableNamesEveryPolicy(t *testing.T) {
	low, high := 0.5, 0.75
	r := report{Impressions: 100, Late: 1000, Policies: []result{{Policy: "elimination"}, {Policy: "greedy", Payoff: 0.5123},
		{Policy: "moss", Judged: &evaluate.Report{Targets: []evaluate.TargetReport{
			{Target: "greedy", Verdict: evaluate.OK, DR: evaluate.Value{Value: 0.6, Lower: &low, Upper: &high}},
			{Target: "utility", Verdict: evaluate.Refused, Reasons: []string{"too few"}}}}}}}
	var out bytes.Buffer
	require.NoError(t, r.writeTable(&out))
	for _, want := range []string{"elimination", "greedy", "1000 impressions late", "[0.5000, 0.7500]", "0.5123", "utility has no value by this log: too few."} {
		require.Contains(t, out.String(), want)
	}
}

// TestMovielens_InterruptionLeavesNothingBehind: Ctrl-C in mid-stream ends worker and all, and everything is removed.
func TestMovielens_InterruptionLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errOut := &interrupter{on: "ranked", interrupt: cancel}
	err := run(ctx, []string{"-ratings", madeUp(t), "-kafka", env.Kafka, "-redis", env.Redis, "-impressions", "10000000",
		"-partitions", "2", "-policies", "greedy", "-timeout", "60s"}, io.Discard, errOut)
	require.EqualError(t, err, "policy greedy: interrupted")
	requireClean(t, env)
}

// interrupter calls interrupt when something is printed.
type interrupter struct {
	on        string
	interrupt func()
}

func (i *interrupter) Write(b []byte) (int, error) {
	if strings.Contains(string(b), i.on) {
		i.interrupt()
	}
	return len(b), nil
}
