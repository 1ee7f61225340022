package admin

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestInspect_ShowsWhatSilenceCountsAs: selections in flight are shown with their
// weight, and with the paid share and delays behind it; a ranking shows it too.
func TestInspect_ShowsWhatSilenceCountsAs(t *testing.T) {
	for law, silent := range map[string]float64{"waits": 0, "at_once": 8, "ages": 8 * 1720.32 / 3600} {
		t.Run(law, func(t *testing.T) {
			cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\n"+
				"learners: {feed: {payoffs: stochastic, policy: moss, payoff_horizon: 1h, silence: "+law+"}}\n"), nil)
			require.NoError(t, err)
			machine, err := app.MachineConfig(cfg)
			require.NoError(t, err)
			machine.MaxRankingBytes = 1 << 20
			m, err := partition.NewOffline(machine)
			require.NoError(t, err)
			const pass = "1780000768000" // 1,720.32 s after the middle of the block in which the selections in flight began
			fields := [][3]string{{"meta", "learner.feed", `{"no":0,"fingerprint":` + quoted(t, cfg.Learners[0].Fingerprint()) + `}`},
				{"meta", "watermark", pass},
				{"feed:items", "a", `{"no":0,"n":0,"sum":0,"sumsq":0}`}, {"feed:flights", "0", "8 18:6790157:8"}}
			if law == "ages" {
				fields = append(fields, [3]string{"feed:settled", "0", "1 1000000"}, [3]string{"feed:ages", "pass", pass},
					[3]string{"feed:learner", "silence", pass + " " + pass + " 0.25 1 1 1"})
			}
			for _, f := range fields {
				require.NoError(t, m.Load(state.Field{Hash: f[0], Field: []byte(f[1]), Value: []byte(f[2])}))
			}
			require.NoError(t, m.Loaded())
			v := &view{machine: m}
			r, err := learnerReport(&cfg.Learners[0], []*view{v})
			require.NoError(t, err)
			require.EqualValues(t, 8, r.Items[0].InFlight)
			require.InDelta(t, silent, r.Items[0].Silent, 0.01)
			require.InDelta(t, silent, r.Parts[0].Silent, 0.01)
			known, err := m.Inspect("feed")
			require.NoError(t, err)
			s := reportSilence(&known.Silence)
			require.Equal(t, law, s.Law)
			require.Nil(t, s.PaidShare, "how late payoffs are is not known")
			x, err := Explain(&cfg.Learners[0], v.machine, v.number, []Candidate{{Item: "a", Utility: 1}, {Item: "b", Utility: 2}}, nil, policy.Key(cfg.Learners[0].Seed))
			require.NoError(t, err)
			for _, c := range x.Candidates {
				if c.Item == "a" {
					require.InDelta(t, silent, c.Worth, 0.01)
					require.InDelta(t, 8-silent, c.Open, 0.01)
					require.Equal(t, silent > 0, c.Mean != nil)
				}
			}
		})
	}
}

// TestInspect_ShowsPayoffPerImpression: shares by item are the sums of both partitions, and that of all items is of them together.
func TestInspect_ShowsPayoffPerImpression(t *testing.T) {
	cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\n"+
		"learners: {feed: {payoffs: stochastic, policy: moss}, lazy: {payoffs: stochastic, policy: moss, delay: qpmd}}\n"), nil)
	require.NoError(t, err)
	machine, err := app.MachineConfig(cfg)
	require.NoError(t, err)
	machine.MaxRankingBytes = 1 << 20
	tool := &Tool{cfg: cfg, machine: machine}
	var views []*view
	for number, attraction := range []string{"10 30", "30 0"} {
		m, err := partition.NewOffline(machine)
		require.NoError(t, err)
		v := &view{number: int32(number), machine: m}
		for _, f := range [][3]string{{"meta", "learner.feed", `{"no":0,"fingerprint":` + quoted(t, cfg.Learners[0].Fingerprint()) + `}`},
			{"meta", "learner.lazy", `{"no":1,"fingerprint":` + quoted(t, cfg.Learners[1].Fingerprint()) + `}`},
			{"feed:items", "a", `{"no":0,"n":10,"sum":5,"sumsq":5}`}, {"feed:items", "b", `{"no":1,"n":0,"sum":0,"sumsq":0}`}, {"feed:attraction", "0", attraction}} {
			v.fields = append(v.fields, state.Field{Hash: f[0], Field: []byte(f[1]), Value: []byte(f[2])})
			require.NoError(t, m.Load(v.fields[len(v.fields)-1]))
		}
		require.NoError(t, m.Loaded())
		views = append(views, v)
	}
	var r Report
	require.NoError(t, tool.learners(&r, views, &InspectQuery{Learner: "feed", Candidates: []Candidate{{Item: "a", Utility: 1}, {Item: "b", Utility: 2}}}))
	share, half, product := 40./70, 0.5, 0.5*40/70
	require.Equal(t, &ImpressionReport{Impressions: 70, Share: &share, PerSelection: &half, PerImpression: &product}, r.Learners[0].Impressions)
	require.Equal(t, ItemReport{Item: "a", Payoffs: 20, Sum: 10, Mean: &half, Share: &share,
		ItemInspection: delay.ItemInspection{OnTop: 70, Selected: 40}}, r.Learners[0].Items[0])
	require.Nil(t, r.Learners[0].Items[1].Share, "nothing ended with it on top")
	for _, c := range r.Learners[0].Ranking.Candidates {
		require.NotNil(t, c.Share)
		require.InDelta(t, *c.Share**c.PerSelection, *c.PerImpression, 1e-12)
	}
	r = Report{}
	require.NoError(t, tool.learners(&r, views, &InspectQuery{Learner: "lazy"}))
	require.Nil(t, r.Learners[0].Impressions, "with qpmd it maximises payoff per selection")
}

func quoted(t *testing.T, s string) string {
	b, err := json.Marshal(s)
	require.NoError(t, err)
	return string(b)
}

// TestInspect_ShowsTheLevel: that of the partition whose estimate is the newest; of other policies none.
func TestInspect_ShowsTheLevel(t *testing.T) {
	look := func(learner string, estimates ...string) *LevelReport {
		cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\n"+
			"learners: {feed: {"+learner+", on_expiry: drop}}\n"), nil)
		require.NoError(t, err)
		machine, err := app.MachineConfig(cfg)
		require.NoError(t, err)
		machine.MaxRankingBytes = 1 << 20
		var views []*view
		for _, estimate := range estimates {
			m, err := partition.NewOffline(machine)
			require.NoError(t, err)
			number := `{"no":0,"fingerprint":` + quoted(t, cfg.Learners[0].Fingerprint()) + `}`
			require.NoError(t, m.Load(state.Field{Hash: "meta", Field: []byte("learner.feed"), Value: []byte(number)}))
			if estimate != "" {
				require.NoError(t, m.Load(state.Field{Hash: "feed:learner", Field: []byte("levels"), Value: []byte(estimate)}))
			}
			require.NoError(t, m.Loaded())
			views = append(views, &view{machine: m})
		}
		r, err := learnerReport(&cfg.Learners[0], views)
		require.NoError(t, err)
		return r.Level
	}
	const robust = "payoffs: adversarial, policy: robust"
	half, minutes := float64(1<<29)/(1<<30), 60.
	older, newer := "1780000000000 9 0.5 0.5 0.25 1 0 10:1738281250:0", "1780000768000 9 0.5 0.5 0.25 1 60000 10:1738281250:536870912"
	want := &LevelReport{AsOf: "2026-05-28T20:39:28Z", Level: half, HalfLife: &minutes}
	require.Equal(t, want, look(robust, older, newer))
	require.Equal(t, want, look(robust, newer, older))
	require.Equal(t, &LevelReport{AsOf: "2026-05-28T20:26:40Z"}, look(robust, older))
	require.Equal(t, &LevelReport{}, look(robust, ""))
	require.Nil(t, look("payoffs: stochastic, policy: moss", ""))
}
