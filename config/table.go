package config

import (
	"net/url"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"
)

// settings are all keys but those of learners and experiments, in the order of output. The file is read, printed and described
// (docs/configuration.md, `lint --schema`) by this table.
var settings = []setting[Config]{
	sectionOf("kafka", func(c *Config) *Kafka { return &c.Kafka }, kafkaSettings),
	sectionOf("redis", func(c *Config) *Redis { return &c.Redis }, redisSettings),
	sectionOf("http", func(c *Config) *HTTP { return &c.HTTP }, []setting[HTTP]{
		value("listen", func(h *HTTP) *string { return &h.Listen }, listenAddress, "127.0.0.1:9108",
			"where probes and metrics are served; empty: nowhere"),
		value("page", func(h *HTTP) *bool { return &h.Page }, yesOrNo, true,
			"also serve the live page at `/`. It shows names of items and some ids of impressions to anybody who reaches the address"),
		value("pprof", func(h *HTTP) *bool { return &h.Pprof }, yesOrNo, false, "also serve `/debug/pprof/`"),
	}),
	sectionOf("serve", func(c *Config) *Serve { return &c.Serve }, serveSettings),
	sectionOf("traces", func(c *Config) *Traces { return &c.Traces }, []setting[Traces]{
		value("endpoint", func(t *Traces) *string { return &t.Endpoint }, endpoint, "",
			"a collector for OTLP over HTTP, such as `http://127.0.0.1:4318`; `/v1/traces` is added. Empty: no traces. "+
				"Headers and certificates are set by OpenTelemetry's variables: [Traces](do/traces.md)"),
		value("ratio", func(t *Traces) *float64 { return &t.Ratio }, numberIn(0, 1), 1,
			"the share of batches, and of requests to `serve`, that are traced. A batch with a record whose trace is sampled is always traced, "+
				"and a request with a trace if that is sampled"),
	}),
	sectionOf("log", func(c *Config) *Log { return &c.Log }, []setting[Log]{
		value("level", func(l *Log) *string { return &l.Level }, words("debug", "info", "warn", "error"), "info",
			"the lowest level that is logged"),
		value("format", func(l *Log) *string { return &l.Format }, words("text", "json"), "text", "format of the log"),
	}),
	sectionOf("join", func(c *Config) *Join { return &c.Join }, []setting[Join]{
		value("parking_time", func(j *Join) *time.Duration { return &j.ParkingTime }, duration(0, longest), time.Hour,
			"how long a payoff or selection is parked until its impression is read"),
		value("remember", func(j *Join) *time.Duration { return &j.Remember },
			durationOr("horizon", UntilHorizon, 0, longest), day,
			"event time for which an ended impression is remembered: until then a repeated payoff, selection or "+
				"impression counts as `duplicate` or `late`. Afterwards a payoff or selection is parked for "+
				"`parking_time` and is an `orphan`, and a repeated impression is ranked again. `horizon`: until its payoff deadline and "+
				"`parking_time` are over. At least `parking_time`, also by default").
			within("`parking_time` to 3650d, or `horizon`"),
		value("max_parked", func(j *Join) *int { return &j.MaxParked }, wholeNumber(0, 100_000_000), 100_000,
			"parked records, per partition. At this number, a topic whose next record needs room pauses until "+
				"the topics with its impression or selection have been read up to its time; without room even then the record is an "+
				"orphan, counted as `crowded`. [Limits](reference/limits.md#single-records) in bytes hold, too. Not 0 together with `parking_time`"),
	}),
	sectionOf("limits", func(c *Config) *Limits { return &c.Limits }, []setting[Limits]{
		value("max_candidates", func(l *Limits) *int { return &l.MaxCandidates }, wholeNumber(1, mostCandidates), 10_000,
			"candidates of one impression"),
		value("max_record_bytes", func(l *Limits) *int { return &l.MaxRecordBytes },
			size(1<<10, mostRecordBytes, lengthFault), 1<<20,
			"length of an input record's value; a longer one is a dead letter"),
		value("checkpoint_interval", func(l *Limits) *time.Duration { return &l.CheckpointInterval },
			duration(time.Millisecond, 30*time.Second), 100*time.Millisecond, "the least time between two checkpoints of a partition"),
	}),
}

var kafkaSettings = []setting[Kafka]{
	value("brokers", func(k *Kafka) *[]string { return &k.Brokers }, addresses(noBrokers), nil, "some of the brokers").
		orElse(noBrokers),
	value("group", func(k *Kafka) *string { return &k.Group }, groupName, "ranker",
		"consumer group; also part of Redis keys and of transactional ids"),
	value("start", func(k *Kafka) *Start { return &k.Start }, words(Latest, Earliest), Latest,
		"first position of a new group"),
	sectionOf("topics", func(k *Kafka) *Topics { return &k.Topics }, []setting[Topics]{
		value("impressions", func(t *Topics) *string { return &t.Impressions }, topicName, "impressions", "input"),
		value("selections", func(t *Topics) *string { return &t.Selections }, topicNameOrNone, "selections",
			"input; empty: none, and a payoff must name its item, which counts as selected"),
		value("payoffs", func(t *Topics) *string { return &t.Payoffs }, topicName, "payoffs", "input"),
		value("rankings", func(t *Topics) *string { return &t.Rankings }, topicName, "rankings", "output"),
		value("dlq_suffix", func(t *Topics) *string { return &t.DLQSuffix }, topicSuffix, ".dlq",
			"a topic's dead letters go to its name with this suffix"),
	}),
	sectionOf("formats", func(k *Kafka) *Formats { return &k.Formats }, []setting[Formats]{
		value("impressions", func(f *Formats) *Format { return &f.Impressions }, words(JSON, Protobuf, Avro), JSON,
			"format of that topic's records; a record that begins with `{` is always JSON ([records](records.md#protobuf-and-avro))"),
		value("selections", func(f *Formats) *Format { return &f.Selections }, words(JSON, Protobuf, Avro), JSON, "likewise"),
		value("payoffs", func(f *Formats) *Format { return &f.Payoffs }, words(JSON, Protobuf, Avro), JSON, "likewise"),
	}),
	sectionOf("schema_registry", func(k *Kafka) *SchemaRegistry { return &k.SchemaRegistry }, registrySettings),
	sectionOf("tls", func(k *Kafka) *TLS { return &k.TLS }, tlsSettings),
	sectionOf("sasl", func(k *Kafka) *SASL { return &k.SASL }, saslSettings),
}

// A token endpoint's client id is the user, and its secret the password.
var saslSettings = []setting[SASL]{
	value("mechanism", func(a *SASL) *Mechanism { return &a.Mechanism },
		unlessZero(words(Plain, ScramSHA256, ScramSHA512, OAuthBearer, AWSMSKIAM)), "", "how to log in"),
	value("username", func(a *SASL) *string { return &a.Username }, user, "",
		"needed for `plain` and `scram-…`; with `token_url` the client id"),
	value("password", func(a *SASL) *Secret { return &a.Password }, secret, "", "use `${VAR}`; with `token_url` the client secret"),
	value("password_file", func(a *SASL) *string { return &a.PasswordFile }, neededFile, "", aboutPasswordFile),
	value("token_file", func(a *SASL) *string { return &a.TokenFile }, neededFile, "",
		"for `oauthbearer`: the token, such as one of a Kubernetes service account; read at the start and for each new connection"),
	value("token_url", func(a *SASL) *string { return &a.TokenURL }, tokenURL, "",
		"for `oauthbearer`, instead of `token_file`: the OAuth 2.0 token endpoint, with client credentials; a token is used until "+
			"a fifth of its time is left"),
	value("token_ca_file", func(a *SASL) *string { return &a.TokenCAFile }, neededFile, "",
		"PEM, for `token_url`; read at each request; without it the system's roots"),
	value("scope", func(a *SASL) *string { return &a.Scope }, user, "", "requested of `token_url`; several are separated by spaces"),
	value("extensions", func(a *SASL) *string { return &a.Extensions }, saslExtensions, "",
		"for `oauthbearer`: extensions sent to the broker, such as `logicalCluster=lkc-1,identityPoolId=pool-1` of Confluent Cloud"),
	value("region", func(a *SASL) *string { return &a.Region }, awsRegion, "",
		"for `aws-msk-iam`; without it that of `AWS_REGION` or of the profile. Credentials are found like those of AWS' tools"),
}

var registrySettings = []setting[SchemaRegistry]{
	value("url", func(r *SchemaRegistry) *string { return &r.URL }, registryURL, "",
		"a server with the interface of Confluent's Schema Registry, as http(s)://host:port; needed for Avro"),
	value("username", func(r *SchemaRegistry) *string { return &r.Username }, user, "", "for basic authentication"),
	value("password", func(r *SchemaRegistry) *Secret { return &r.Password }, secret, "", "use `${VAR}`"),
	value("password_file", func(r *SchemaRegistry) *string { return &r.PasswordFile }, neededFile, "", "in place of `password`; read at each request"),
	value("token_file", func(r *SchemaRegistry) *string { return &r.TokenFile }, neededFile, "",
		"a bearer token, in place of a user; read at each request"),
	sectionOf("tls", func(r *SchemaRegistry) *TLS { return &r.TLS }, tlsSettings),
}

// serveSettings are for `ranker-worker serve`; a worker ignores them.
var serveSettings = []setting[Serve]{
	value("listen", func(s *Serve) *string { return &s.Listen }, serveAddress, "127.0.0.1:8081",
		"address of the HTTP interface of `ranker-worker serve`"),
	value("cert_file", func(s *Serve) *string { return &s.CertFile }, neededFile, "",
		"PEM, the server's certificate; read again at each handshake; goes with `key_file`. Without it there is no TLS"),
	value("key_file", func(s *Serve) *string { return &s.KeyFile }, neededFile, "", "PEM; goes with `cert_file`"),
	value("tokens_file", func(s *Serve) *string { return &s.TokensFile }, neededFile, "",
		"permitted senders: a name and a bearer token in each line; read again when changed, and at SIGHUP. Without it anybody who reaches "+
			"`listen` may send"),
	value("timeout", func(s *Serve) *time.Duration { return &s.Timeout }, duration(time.Millisecond, 10*time.Second), 200*time.Millisecond,
		"how long a request waits for its ranking; then the answer is the order by utility"),
	value("remember", func(s *Serve) *int64 { return &s.Remember }, size[int64](1<<20, 1<<40, withoutHint), 64<<20,
		"memory for recent rankings of all partitions, which answers repeated requests"),
	value("max_body_bytes", func(s *Serve) *int64 { return &s.MaxBodyBytes }, size[int64](1<<10, 64<<20, withoutHint), 4<<20,
		"length of a request's body"),
	value("concurrency", func(s *Serve) *int { return &s.Concurrency }, wholeNumber(1, 100_000), 4000,
		"concurrent requests; more are refused with 503"),
	value("rate", func(s *Serve) *int { return &s.Rate }, wholeNumber(1, 10_000_000), 10_000,
		"requests a second, in total; more are refused with 429"),
}

const (
	noBrokers         = "at least one broker is needed, as host:port"
	noRedis           = "is needed, such as redis://127.0.0.1:6379/0, or redis.addresses"
	aboutPasswordFile = "in place of `password`; read at the start and for each new connection, so it can change without a restart"
)

var tlsSettings = []setting[TLS]{
	value("enabled", func(t *TLS) *bool { return &t.Enabled }, unlessZero(yesOrNo), false,
		"encrypt; true if another key of `tls` is set, and with a `redis.url` that begins with `rediss://`"),
	value("ca_file", func(t *TLS) *string { return &t.CAFile }, file, "", "PEM; without it the system's roots"),
	value("cert_file", func(t *TLS) *string { return &t.CertFile }, file, "",
		"PEM, the client's certificate; read again at each handshake; goes with `key_file`"),
	value("key_file", func(t *TLS) *string { return &t.KeyFile }, file, "", "PEM; goes with `cert_file`"),
	value("server_name", func(t *TLS) *string { return &t.ServerName }, hostName, "",
		"expected in the server's certificate; without it the host connected to"),
}

// Redis is given by a URL or by addresses. A check splits the URL, which is put together again here.
var redisSettings = []setting[Redis]{
	{key: "url", kind: "URL", span: "`redis://` or `rediss://` (TLS)", editor: anyText,
		about:  "`redis://[user[:password]@]host[:port][/db]`; or give `redis.addresses`",
		needed: noRedis, start: func(*Redis) {}, print: (*Redis).printURL},
	value("addresses", func(r *Redis) *[]string { return &r.Addresses }, redisAddresses, nil, "in place of `url`; several for a cluster").
		unless((*Redis).hasURL),
	value("cluster", func(r *Redis) *bool { return &r.Cluster }, yesOrNo, false, "Redis Cluster; needed for several addresses"),
	value("username", func(r *Redis) *string { return &r.Username }, user, "", "an ACL user, if not given in `url`; needs a password"),
	value("password", func(r *Redis) *Secret { return &r.Password }, secret, "", "if not given in `url`; use `${VAR}`"),
	value("password_file", func(r *Redis) *string { return &r.PasswordFile }, neededFile, "", aboutPasswordFile),
	value("db", func(r *Redis) *int { return &r.DB }, database, 0, "the database, if not given in `url`; 0 in a cluster").
		unless(func(*Redis) bool { return true }), // part of the URL
	value("wait_replicas", func(r *Redis) *int { return &r.WaitReplicas }, wholeNumber(0, 10), 0,
		"replicas that must have a checkpoint before it counts"),
	sectionOf("tls", func(r *Redis) *TLS { return &r.TLS }, tlsSettings),
}

func (r *Redis) hasURL() bool { return len(r.Addresses) == 1 && !r.Cluster }

func (r *Redis) printURL() *yaml.Node {
	if !r.hasURL() {
		return nil
	}
	u := url.URL{Scheme: "redis", Host: r.Addresses[0], Path: "/" + strconv.Itoa(r.DB)}
	if r.TLS.Enabled {
		u.Scheme = "rediss"
	}
	return text(u.String())
}

// Defaults returns the configuration of an empty file, which is not valid: it has no brokers, no Redis and no learner.
func Defaults() Config {
	return standardOf(settings)
}
