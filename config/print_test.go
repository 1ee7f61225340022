package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

func load(t require.TestingT, file string, env Env) *Config {
	c, _, err := Load("w.yaml", []byte(file), env)
	require.NoError(t, err, file)
	return c
}

func printed(t require.TestingT, c *Config) string {
	var b bytes.Buffer
	require.NoError(t, c.Print(&b))
	return b.String()
}

// TestMinimalFile: brokers, redis and one learner are enough, and Print shows all else.
func TestMinimalFile(t *testing.T) {
	const path = "testdata/minimal.golden.yaml"
	c := load(t, "kafka: {brokers: ['127.0.0.1:9092']}\nredis: {url: 'redis://127.0.0.1:6379/0'}\nlearners: {feed: {}}\n", noEnv)
	got := printed(t, c)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// TestEveryKey: a file that sets every supported key to something else than its default.
func TestEveryKey(t *testing.T) {
	const in, path = "testdata/full.yaml", "testdata/full.golden.yaml"
	file, err := os.ReadFile(in)
	require.NoError(t, err)
	env := envOf(map[string]string{"KAFKA_PASSWORD": "kafka-secret", "REDIS_PASSWORD": "redis-secret", "REGISTRY_PASSWORD": "registry-secret"})
	c := load(t, string(file), env)
	got := printed(t, c)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
	assert.EqualValues(t, "kafka-secret", c.Kafka.SASL.Password)
	assert.EqualValues(t, "redis-secret", c.Redis.Password)
	assert.Equal(t, "feed", c.DefaultLearner().Name)
	assert.Equal(t, "stochastic range=-1..4 aggregate=sum delay=qpmd", c.Learners[0].Fingerprint())
	assert.Equal(t, "w.yaml:7: kafka.topics.rankings", c.Where("kafka.topics.rankings"))
	assert.Equal(t, "w.yaml: kafka.nothing", c.Where("kafka.nothing"))
	assert.Equal(t, "kafka.group", (&Config{}).Where("kafka.group"))

	same := load(t, got, noEnv)
	assert.Equal(t, got, printed(t, same))
}

// TestSecretsAreNeverShown, neither by Print nor by a fault, a warning, fmt or a logger.
func TestSecretsAreNeverShown(t *testing.T) {
	const secret = "s3cr3t"
	files := []string{
		"kafka: {brokers: ['k:1'], sasl: {mechanism: plain, username: u, password: s3cr3t}}\n",
		"kafka: {brokers: ['k:1'], sasl: {mechanism: plain, username: u, password: '${P}'}}\n",
		"kafka: {brokers: ['k:1'], sasl: {username: u, password: s3cr3t}}\n",
		"kafka: {brokers: ['k:1'], sasl: {mechanism: nil, username: u, password: [s3cr3t]}}\n",
		"redis: {url: 'redis://:s3cr3t@r:1'}\n",
		"redis: {url: 'redis://u:${P}@r:1/1'}\n",
		"redis: {url: 'rediss://u:${P}@r:1/1', tls: {enabled: false}}\n",
		"redis: {url: 'redis://u:${P}@r:1/x'}\n",
		"redis: {url: 'redis://u:s3cr3t/x@r:1'}\n",
		"redis: {url: 'redis://u:s3cr3t#x@r:1'}\n",
		"redis: {url: 'redis://u:s3cr3t%zz@r:1'}\n",
		"redis: {url: 'http://u:${P}@r:1'}\n",
		"redis: {url: 'redis://u:${P}@'}\n",
		"redis: {url: 'redis://u:${P}@r', password: '${P}', db: 4}\n",
		"redis: {addresses: ['r:1'], password: s3cr3t}\n",
		"traces: {endpoint: 'http://u:s3cr3t@c:4318'}\n",
		"traces: {endpoint: 'http://u:s3cr3t%zz@c:4318'}\n",
	}
	loaded := 0
	for _, file := range files {
		c, warnings, err := Load("w.yaml", []byte(complete(file)), envOf(map[string]string{"P": secret}))
		var b bytes.Buffer
		fmt.Fprintln(&b, warnings, err)
		if c != nil {
			loaded++
			require.Contains(t, []Secret{c.Redis.Password, c.Kafka.SASL.Password}, Secret(secret), file)
			require.NoError(t, c.Print(&b))
			fmt.Fprintf(&b, "%v %+v %#v %s %q", *c, *c, *c, c.Redis.Password, c.Kafka.SASL)
			slog.New(slog.NewTextHandler(&b, nil)).Info("x", "config", *c, "password", c.Redis.Password)
			slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "config", *c, "password", c.Kafka.SASL)
		}
		assert.NotContains(t, b.String(), secret, file)
	}
	assert.Equal(t, 5, loaded)
	assert.Empty(t, Secret("").String())
}

// TestPrintLoadRoundTrip: a printed configuration loads as the same one.
func TestPrintLoadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		text := printed(t, c)
		again := load(t, text, noEnv)
		again.source = source{}
		require.Equal(t, c, again, text)
	})
}

func drawConfig(t *rapid.T) *Config {
	c := Defaults()
	address := rapid.Custom(func(t *rapid.T) string {
		host := rapid.SampledFrom([]string{"localhost", "127.0.0.1", "[::1]", "k-1.example.com", "[2001:db8::7]"}).Draw(t, "host")
		return fmt.Sprintf("%s:%d", host, rapid.IntRange(1, 65535).Draw(t, "port"))
	})
	span := func(label string, least, most time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(least.Milliseconds(), most.Milliseconds()).Draw(t, label)) * time.Millisecond
	}
	// Any text that can stand in the file: its scalars may need quotes, escapes or ${ kept literal.
	words := rapid.OneOf(rapid.StringN(1, 20, -1), rapid.SampledFrom([]string{"${X}", "$${", "$", "true", "~", "- x", "1e3", "a: b", "#", " x ", "\n"}))
	c.Kafka.Brokers = rapid.SliceOfNDistinct(address, 1, 4, rapid.ID[string]).Draw(t, "brokers")
	c.Kafka.Group = rapid.StringMatching(`[A-Za-z0-9._-]{0,39}[A-Za-z0-9]`).Draw(t, "group")
	c.Kafka.Start = rapid.SampledFrom([]Start{Latest, Earliest}).Draw(t, "start")
	if rapid.Bool().Draw(t, "no selections") {
		c.Kafka.Topics.Selections = ""
	}
	drawTLS := func(label string) (out TLS) {
		if out.Enabled = rapid.Bool().Draw(t, label); out.Enabled && rapid.Bool().Draw(t, label+" files") {
			out.CAFile = words.Draw(t, "ca")
			out.CertFile, out.KeyFile = words.Draw(t, "cert"), words.Draw(t, "key")
			out.ServerName = rapid.StringMatching(`[a-z]{1,4}(\.[a-z]{1,4}){0,2}`).Draw(t, "name")
		}
		return out
	}
	c.Kafka.TLS, c.Redis.TLS = drawTLS("kafka tls"), drawTLS("redis tls")
	format := rapid.SampledFrom([]Format{JSON, Protobuf, Avro})
	c.Kafka.Formats = Formats{format.Draw(t, "impressions"), format.Draw(t, "selections"), format.Draw(t, "payoffs")}
	if r := &c.Kafka.SchemaRegistry; c.Kafka.Formats.Avro() || rapid.Bool().Draw(t, "registry") {
		r.URL = "http://" + address.Draw(t, "registry's")
		if r.TLS = drawTLS("registry tls"); r.TLS.Enabled {
			r.URL = "https" + strings.TrimPrefix(r.URL, "http") + "/apis/v7"
		}
		if rapid.Bool().Draw(t, "token") {
			r.TokenFile = words.Draw(t, "token file")
		} else if rapid.Bool().Draw(t, "registry user") {
			r.Username, r.Password = words.Draw(t, "user"), Mask
		}
	}
	if rapid.Bool().Draw(t, "sasl") {
		m := rapid.SampledFrom([]Mechanism{Plain, ScramSHA256, ScramSHA512}).Draw(t, "mechanism")
		carried := func(user string) bool { return m.carries(user) == nil }
		c.Kafka.SASL = SASL{Mechanism: m, Username: words.Filter(carried).Draw(t, "user"), PasswordFile: words.Draw(t, "file")}
		switch rapid.IntRange(0, 3).Draw(t, "token") {
		case 0:
			c.Kafka.SASL.Mechanism, c.Kafka.SASL.TokenURL, c.Kafka.SASL.TokenCAFile = OAuthBearer, "https://idp/token", words.Draw(t, "token ca")
			c.Kafka.SASL.Scope, c.Kafka.SASL.Extensions = words.Draw(t, "scope"), "a=b"
		case 1:
			c.Kafka.SASL = SASL{Mechanism: OAuthBearer, TokenFile: words.Draw(t, "token file")}
		case 2:
			c.Kafka.SASL = SASL{Mechanism: AWSMSKIAM, Region: "eu-west-1"}
		}
	}
	c.Redis.Addresses = rapid.SliceOfNDistinct(address, 1, 3, rapid.ID[string]).Draw(t, "addresses")
	if c.Redis.Cluster = len(c.Redis.Addresses) > 1 || rapid.Bool().Draw(t, "cluster"); !c.Redis.Cluster {
		c.Redis.DB = rapid.IntRange(0, 15).Draw(t, "db")
	}
	if rapid.Bool().Draw(t, "acl") {
		c.Redis.Username, c.Redis.Password = words.Draw(t, "acl user"), Mask
	}
	c.Redis.WaitReplicas = rapid.IntRange(0, 10).Draw(t, "wait")
	c.HTTP = HTTP{Listen: rapid.SampledFrom([]string{"", ":0", "0.0.0.0:80", "[::]:1"}).Draw(t, "listen"), Page: rapid.Bool().Draw(t, "page"),
		Pprof: rapid.Bool().Draw(t, "pprof")}
	c.Traces = Traces{Endpoint: rapid.SampledFrom([]string{"", "http://127.0.0.1:4318", "https://c.example.com/a"}).Draw(t, "collector"),
		Ratio: rapid.Float64Range(0, 1).Draw(t, "ratio")}
	c.Serve = Serve{Listen: rapid.SampledFrom([]string{"127.0.0.1:8081", ":0", "[::]:1"}).Draw(t, "serve"),
		Timeout: span("timeout", time.Millisecond, 10*time.Second), Remember: rapid.Int64Range(1<<20, 1<<40).Draw(t, "remember"),
		MaxBodyBytes: rapid.Int64Range(1<<10, 64<<20).Draw(t, "body"), Concurrency: rapid.IntRange(1, 100_000).Draw(t, "concurrency"),
		Rate: rapid.IntRange(1, 1e7).Draw(t, "rate")}
	if rapid.Bool().Draw(t, "serve's files") {
		c.Serve.CertFile, c.Serve.KeyFile, c.Serve.TokensFile = words.Draw(t, "cert"), words.Draw(t, "key"), words.Draw(t, "tokens")
	}
	c.Log = Log{Level: rapid.SampledFrom([]string{"debug", "info", "warn", "error"}).Draw(t, "level"),
		Format: rapid.SampledFrom([]string{"text", "json"}).Draw(t, "format")}
	c.Join = Join{ParkingTime: span("parking", time.Millisecond, longest), Remember: UntilHorizon, MaxParked: rapid.IntRange(0, 1e8).Draw(t, "parked")}
	if rapid.Bool().Draw(t, "remembers for a time") {
		c.Join.Remember = span("remember", c.Join.ParkingTime, longest)
	}
	c.Limits = Limits{MaxCandidates: rapid.IntRange(1, mostCandidates).Draw(t, "candidates"),
		MaxRecordBytes:     rapid.IntRange(1<<10, mostRecordBytes).Draw(t, "record"),
		CheckpointInterval: span("interval", time.Millisecond, 30*time.Second)}
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9._-]{1,12}`).Filter(func(s string) bool { return checkLearnerName(s) == nil }), 1, 3, rapid.ID[string]).Draw(t, "learners")
	byDefault := rapid.IntRange(-1, len(names)-1).Draw(t, "default")
	for i, name := range names {
		l := drawLearner(t, name, c.Kafka.Topics.HasSelections(), span)
		l.Default = i == byDefault || len(names) == 1
		if l.notContextual() == "" && rapid.Bool().Draw(t, "context") {
			drawContext(t, &l)
		}
		c.Learners = append(c.Learners, l)
	}
	drawExperiment(t, &c, span)
	return &c
}

// drawContext declares some features.
func drawContext(t *rapid.T, l *Learner) {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_.-]{0,8}`), 1, 4, rapid.ID[string]).Draw(t, "features")
	c := &l.Context
	for _, name := range append(names, features.Predicted) {
		f := Feature{Name: name, Range: standardRange, Scale: LinearScale}
		switch {
		case name == features.Predicted:
			c.Item = append(c.Item, f)
			continue
		case rapid.Bool().Draw(t, "range"):
			f.Range = Range{Min: rapid.Float64Range(-1e9, 1e9).Draw(t, "low"), Max: 2e9}
		}
		if rapid.Bool().Draw(t, "log") {
			f.Scale = LogScale
		}
		if rapid.Bool().Draw(t, "of the user") {
			c.User, c.Cross = append(c.User, f), append(c.Cross, [2]string{name, features.Predicted})
		} else {
			c.Item = append(c.Item, f)
		}
	}
	if l.Prior.Kind != policy.NoPrior {
		if all := rapid.SliceOfNDistinct(rapid.StringN(1, 8, -1), 0, 3, rapid.ID[string]).Draw(t, "segments"); len(all) > 0 {
			c.Segments = all
		}
		c.Categories = rapid.Bool().Draw(t, "categories")
	}
	c.Missing = rapid.SampledFrom([]Missing{RefuseMissing, MissingIsZero}).Draw(t, "missing")
}

// drawExperiment makes the last learner part of an experiment, with others that are as it is but for their names, or not.
func drawExperiment(t *rapid.T, c *Config, span func(string, time.Duration, time.Duration) time.Duration) {
	if len(c.Learners) < 2 || rapid.Bool().Draw(t, "no experiment") {
		return
	}
	l := c.Learners[len(c.Learners)-1]
	x := Experiment{Name: l.Name, By: rapid.SampledFrom([]Unit{ByImpression, ByUser}).Draw(t, "by"), Period: 7 * day,
		Run: rapid.IntRange(1, 1_000_000_000).Draw(t, "run"), Guard: Guard{Margin: 0.2}}
	for k, share := range []float64{0.5, 0.375, 0.125} {
		another := l
		if k > 0 {
			another.Name, another.Default = fmt.Sprintf("another_%d", k), false
			c.Learners = append(c.Learners, another)
		}
		x.Arms = append(x.Arms, Arm{another.Name, share})
	}
	x.Control = x.Arms[rapid.IntRange(0, 2).Draw(t, "control")].Learner
	if l.OnExpiry.Default == nil {
		x.Unpaid = &l.PayoffRange.Min
	}
	if x.By == ByUser && rapid.Bool().Draw(t, "period") {
		x.Period = span("period", time.Hour, longest)
	}
	if rapid.Bool().Draw(t, "guard") {
		x.Guard = Guard{Margin: rapid.Float64Range(0, 1).Draw(t, "margin"), Fallback: x.Arms[rapid.IntRange(0, 2).Draw(t, "fallback")].Learner}
	}
	x.Learning = Separate
	if unreadable(&l, &l) == "" && rapid.Bool().Draw(t, "shared") {
		x.Learning = Shared
		if rapid.Bool().Draw(t, "shadow") {
			another := l
			another.Name, another.Default = "the_shadow", false
			c.Learners = append(c.Learners, another)
			x.Shadow = []Arm{{another.Name, 0.5}}
		}
	}
	c.Experiments = append(c.Experiments, x)
}

func drawLearner(t *rapid.T, name string, selections bool, span func(string, time.Duration, time.Duration) time.Duration) Learner {
	if rapid.Bool().Draw(t, "adversarial") {
		return drawTimes(t, drawAdversarial(t, name), selections, span)
	}
	l := DefaultLearner(name, Stochastic)
	l.Policy = rapid.SampledFrom(Policies()).Filter(func(p Policy) bool { return !p.Spec().IsAdversarial() }).Draw(t, "policy")
	l.Delay = rapid.SampledFrom(Delays()).Filter(func(d Delay) bool { return Together(l.Policy, d) == nil }).Draw(t, "delay")
	if l.Policy == EpsilonGreedy && rapid.Bool().Draw(t, "given windows") {
		l.Windows = Windows{List: []float64{0.6, 0.4}, Max: 2} // on lists of 2, all can be selected alike
	}
	l.EstimateSigma = false
	if l.believes() {
		l.Prior = rapid.SampledFrom([]Prior{{}, {Kind: policy.EmpiricalPrior}, {Kind: policy.FixedPrior, Mean: 0.25, SD: 1e-9}}).Draw(t, "prior")
		l.EstimateSigma = rapid.Bool().Draw(t, "sigma auto")
	}
	if l.Policy.Spec().Confident || l.believes() && !l.EstimateSigma {
		l.Sigma = rapid.Float64Range(leastScale, mostScale).Draw(t, "sigma")
	}
	if !l.Policy.Spec().Confident {
		return drawTimes(t, l, selections, span)
	}
	l.Radius = rapid.SampledFrom([]Radius{SubGaussian, Paper}).Draw(t, "radius")
	if l.Delta.Auto = rapid.Bool().Draw(t, "auto"); l.Delta.Auto {
		l.Delta.Value = 0
	} else {
		l.Delta.Value = rapid.Float64Range(1e-300, 0.999).Draw(t, "delta")
	}
	return drawTimes(t, l, selections, span)
}

func drawAdversarial(t *rapid.T, name string) Learner {
	l := DefaultLearner(name, Adversarial)
	l.Policy, l.Delay, l.Silence = rapid.SampledFrom([]Policy{FTRL, OSMD}).Draw(t, "policy"), BOLD, Waits
	l.EstimateSigma = false
	l.MaxInstances = rapid.IntRange(0, maxInstances).Draw(t, "instances")
	l.LossIndex = rapid.SampledFrom([]LossIndex{ByItem, ByRank}).Draw(t, "index")
	if !rapid.Bool().Draw(t, "auto") {
		l.Eta = OrAuto{Value: rapid.Float64Range(1e-6, 1e6).Draw(t, "eta")}
	}
	switch rapid.IntRange(0, 3).Draw(t, "windows") {
	case 0:
		l.Windows.List = []float64{0.25, 0, 0.75}[:3:3]
		l.Windows.Max = 3
	case 1:
		ratio := rapid.Float64Range(1e-300, 1).Draw(t, "ratio")
		l.Windows = Windows{Geometric: &ratio, Max: rapid.IntRange(1, 65536).Draw(t, "max")}
	case 2:
		s := rapid.Float64Range(0, 1e300).Draw(t, "s")
		l.Windows = Windows{Zipf: &s, Max: rapid.IntRange(1, 65536).Draw(t, "max")}
	default:
		l.Windows.Max = rapid.IntRange(1, 1000).Draw(t, "max")
	}
	return l
}

func drawTimes(t *rapid.T, l Learner, selections bool, span func(string, time.Duration, time.Duration) time.Duration) Learner {
	lo := rapid.Float64Range(-1e300, 1e300).Draw(t, "min")
	l.PayoffRange = Range{Min: lo, Max: lo + (math.Abs(lo)/1e9 + 1e-315) + rapid.Float64Range(0, 1e300).Draw(t, "width")}
	l.PayoffHorizon = span("horizon", time.Millisecond, longest)
	l.SelectionTimeout = 0
	if selections {
		l.SelectionTimeout = span("timeout", time.Millisecond, l.PayoffHorizon)
	}
	if l.ItemRetention = 0; l.neverForgets() == "" && rapid.Bool().Draw(t, "items end") {
		l.ItemRetention = span("retention", l.PayoffHorizon, longest)
	}
	l.OutOfRange = rapid.SampledFrom([]OutOfRange{Clamp, Refuse}).Draw(t, "out of range")
	l.OnExpiry.Default = nil
	if rapid.Bool().Draw(t, "expiry default") {
		x := rapid.Float64Range(l.PayoffRange.Min, l.PayoffRange.Max).Draw(t, "x")
		l.OnExpiry.Default = &x
	}
	if l.Silence = Waits; selections && l.silenceWaits() == "" {
		l.Silence = rapid.SampledFrom([]Silence{Waits, AtOnce, Ages}).Draw(t, "silence")
	}
	if l.Delay == Direct {
		l.Drift = rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1)).Draw(t, "drift")
	}
	l.Aggregate = rapid.SampledFrom([]Aggregate{First, Sum}).Draw(t, "aggregate")
	l.Seed = rapid.Uint64().Draw(t, "seed")
	return l
}

// TestExpandUndoesEscape: an escaped text is restored, in any environment.
func TestExpandUndoesEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("${}:aA_0é"))).Draw(t, "s")
		e, err := expand(escape(s), func(string) (string, bool) { return "wrong", true })
		require.NoError(t, err)
		require.Equal(t, s, e.text)
		require.Zero(t, e.references)
	})
}

func TestExpand(t *testing.T) {
	env := envOf(map[string]string{"A": "1", "E": "", "R": "${A}"})
	for in, want := range map[string]string{
		"${A}": "1", "x${A}y${A:2}": "x1y1", "${B:}": "", "${B:a:b}": "a:b", "${E:x}": "", "$A": "$A", "${R}": "${A}", "$${A}": "${A}",
		"${B:-3}": "-3", "a}b": "a}b",
	} {
		e, err := expand(in, env)
		require.NoError(t, err, in)
		assert.Equal(t, want, e.text, in)
	}
}

// TestDurationRoundTrip: parseDuration reads the output of FormatDuration, with days or without.
func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Min(0).Draw(t, "d"))
		got, err := ParseDuration(FormatDuration(d))
		require.NoError(t, err)
		require.Equal(t, d, got)
		n := rapid.Int64Range(0, 100_000).Draw(t, "days")
		rest := d % day
		got, err = ParseDuration(fmt.Sprintf("%dd%s", n, FormatDuration(rest)))
		require.NoError(t, err)
		require.Equal(t, time.Duration(n)*day+rest, got)
	})
	for _, s := range []string{"", "d", "1", "-1d", "1d-1h", "1d+1h", "1d1d", "999999999d", "106751d99h", "1e3d", "nand", "1h1d", " 1h", "0x1d"} {
		_, err := ParseDuration(s)
		assert.Error(t, err, s)
	}
	d, err := ParseDuration("1.5d")
	require.NoError(t, err)
	assert.Equal(t, 36*time.Hour, d)
}

func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		got, err := parseSize(formatSize(n))
		require.NoError(t, err)
		require.Equal(t, n, got)
	})
	for _, s := range []string{"", "KiB", "1.5MiB", "1KB", "9999999999GiB", "1 2B", "MiB1"} {
		_, err := parseSize(s)
		assert.Error(t, err, s)
	}
}

// TestAliasesAreBounded: the work on a file does not grow with the expansion of its aliases.
func TestAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("kafka: {brokers: ['127.0.0.1:9092'], group: g}\nredis: {url: 'redis://127.0.0.1'}\nlearners:\n  l0: &a {payoffs: stochastic, ")
	for i := range 2000 {
		fmt.Fprintf(&b, "k%d: 1, ", i)
	}
	b.WriteString("}\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "  m%d: *a\n", i)
	}
	_, _, err := Load("w.yaml", []byte(b.String()), noEnv)
	var faults Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults, 1)
	assert.Contains(t, faults[0].Message, "more than 100000 values")

	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	_, _, err = Load("w.yaml", []byte(laughs+"kafka: {brokers: *j}\n"), noEnv)
	require.Error(t, err)

	_, _, err = Load("w.yaml", bytes.Repeat([]byte("#"), MaxFileBytes+1), noEnv)
	require.ErrorAs(t, err, &faults)
	assert.Equal(t, "w.yaml:1: the file is larger than 1MiB", faults.Error())
}

// FuzzLoad: no file makes the loader panic. A file loads or has faults, and the print of a loaded one loads again.
func FuzzLoad(f *testing.F) {
	for _, path := range []string{"testdata/full.yaml", "testdata/minimal.golden.yaml"} {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
	cases, err := os.ReadFile("testdata/faults.txt")
	require.NoError(f, err)
	for _, c := range strings.Split(string(cases), "\n=== ") {
		_, file, _ := strings.Cut(c, "\n")
		file, _, _ = strings.Cut(file, "---\n")
		f.Add([]byte(complete(file)))
	}
	env := envOf(map[string]string{"KAFKA_PASSWORD": "x", "REDIS_PASSWORD": "y", "A": "${A}"})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := Load("w.yaml", data, env)
		if err != nil {
			var faults Faults
			require.ErrorAs(t, err, &faults)
			require.NotEmpty(t, faults)
			for _, fault := range faults {
				require.GreaterOrEqual(t, fault.Line, 1)
				require.NotContains(t, fault.String(), "\n")
			}
			require.Nil(t, c)
			return
		}
		text := printed(t, c)
		again := load(t, text, noEnv)
		require.Equal(t, text, printed(t, again))
	})
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 39300: "39,300", 1234567: "1,234,567", -39300: "-39,300", -300: "-300"} {
		assert.Equal(t, want, Grouped(n))
	}
}
