package config

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Config is a configuration, with the defaults filled in.
type Config struct {
	Kafka    Kafka
	Redis    Redis
	HTTP     HTTP
	Serve    Serve
	Traces   Traces
	Log      Log
	Join     Join
	Limits   Limits
	Learners []Learner // in the file's order; at least one, names distinct
	// Experiments are in the file's order. Their names are distinct, also from those of learners.
	Experiments []Experiment

	source source
}

type Kafka struct {
	Brokers []string // host:port; at least one
	Group   string   // also part of every Redis key and of the transactional ids
	Start   Start    // of a new group
	Topics  Topics
	Formats Formats
	// SchemaRegistry has the schemas of Avro records; only needed with Avro.
	SchemaRegistry SchemaRegistry
	TLS            TLS
	SASL           SASL
}

type Format string

const (
	JSON     Format = "json"
	Protobuf Format = "protobuf"
	Avro     Format = "avro"
)

type Formats struct{ Impressions, Selections, Payoffs Format }

func (f Formats) Avro() bool {
	return f.Impressions == Avro || f.Selections == Avro || f.Payoffs == Avro
}

// SchemaRegistry is a server with the interface of Confluent's Schema Registry.
type SchemaRegistry struct {
	URL          string // empty: there is none
	Username     string // for HTTP's basic authentication
	Password     Secret
	PasswordFile string // in place of Password; read at each request
	TokenFile    string // a bearer token, instead of a user; read at each request
	TLS          TLS
}

// Start is the first position of a new group.
type Start string

const (
	Latest   Start = "latest"
	Earliest Start = "earliest"
)

// Topics are the topics' names. They and their dead-letter topics are distinct, also for Kafka's metrics, which treat '.' and '_' as equal.
type Topics struct {
	Impressions string
	Selections  string // empty: none; then a payoff's item is the selection
	Payoffs     string
	Rankings    string
	DLQSuffix   string // of dead-letter topics: the input topic's name with this suffix
}

func (t Topics) HasSelections() bool { return t.Selections != "" }

func (t Topics) DLQ(topic string) string { return topic + t.DLQSuffix }

// TLS holds the settings of encryption. File names are as in the file; only builders read files.
type TLS struct {
	Enabled    bool   // true if any other key is set, unless the file has enabled: false
	CAFile     string // PEM; empty: the system's roots
	CertFile   string // PEM, the client's certificate; goes with KeyFile
	KeyFile    string
	ServerName string // expected in the server's certificate; empty: the host of the address
}

// SASL holds the login to Kafka; none if Mechanism is "".
type SASL struct {
	Mechanism    Mechanism
	Username     string // with TokenURL the client id
	Password     Secret // with TokenURL the client secret
	PasswordFile string // in place of Password; read at the start, and by each new connection
	TokenFile    string // of OAuthBearer; read at the start, and by each new connection
	TokenURL     string // of OAuthBearer, instead of TokenFile: issues tokens for client credentials
	TokenCAFile  string // PEM, for TokenURL; empty: the system's roots
	Scope        string // requested of TokenURL; empty: none
	Extensions   string // of OAuthBearer: name=value,name=value
	Region       string // of AWSMSKIAM; empty: that of the environment
}

type Mechanism string

const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
	OAuthBearer Mechanism = "oauthbearer"
	AWSMSKIAM   Mechanism = "aws-msk-iam" // OAUTHBEARER for brokers, with tokens that AWS credentials sign
)

// Redis locates the checkpoints. A redis.url of the file is split into these fields.
type Redis struct {
	Addresses    []string // host:port; one, or the seeds of a cluster
	Cluster      bool     // Redis Cluster
	Username     string   // an ACL user; empty: the default user
	Password     Secret
	PasswordFile string // in place of Password; read at the start, and by each new connection
	DB           int    // 0 in a cluster
	WaitReplicas int    // replicas that must have a checkpoint before it counts (WAIT); 0: none
	TLS          TLS
}

// HTTP configures /livez, /readyz, /metrics and /version.
type HTTP struct {
	Listen string // host:port; empty: no server
	Page   bool   // also serve the live page at /
	Pprof  bool   // also serve /debug/pprof/
}

type Log struct {
	Level  string // debug, info, warn or error
	Format string // text or json
}

// Join bounds the parking of early payoffs and selections, and the memory of ended impressions.
type Join struct {
	ParkingTime time.Duration // of one record
	Remember    time.Duration // from the end of an impression, at least ParkingTime; or UntilHorizon
	MaxParked   int           // records, per partition; 0: none
}

// UntilHorizon is a Join.Remember: until the payoff deadline and the parking time are over.
const UntilHorizon time.Duration = -1

type Limits struct {
	MaxCandidates      int
	MaxRecordBytes     int           // of an input record's value; longer ones are dead letters
	CheckpointInterval time.Duration // least time between two checkpoints of a partition
}

type Learner struct {
	Name             string // of [a-z0-9._-]
	Default          bool   // ranks records that name no learner; always true for a single learner
	Payoffs          Payoffs
	Policy           Policy
	Delay            Delay
	Radius           Radius
	Sigma            float64 // sub-Gaussian scale σ of one payoff, in units of the payoff range; > 0
	EstimateSigma    bool    // σ is estimated from payoffs; Sigma is its first value, and its maximum
	Prior            Prior
	Delta            OrAuto // failure probability δ of the confidence radius, in (0,1); auto: 1/t
	MaxInstances     int    // of BASE, with delay bold; 0: one for each outstanding payoff
	LossIndex        LossIndex
	Eta              OrAuto // learning rate: c of η_t = c/√t for ftrl (auto: 1), η itself for osmd (auto: the horizon is doubled)
	Windows          Windows
	PayoffRange      Range // of a payoff, or of the sum with aggregate: sum
	PayoffHorizon    time.Duration
	SelectionTimeout time.Duration // at most PayoffHorizon; 0 without a selections topic
	ItemRetention    time.Duration // at least PayoffHorizon, or 0: for ever
	OutOfRange       OutOfRange
	// HalfLives and LookAgain are robust's. Only tests set them: nil is recency.DefaultHalfLives, and 0 policy.DefaultLookAgain.
	HalfLives []time.Duration
	LookAgain float64
	OnExpiry  OnExpiry
	Silence   Silence
	Drift     float64 // deviations of a payoff a day
	Aggregate Aggregate
	Utilities Utilities
	Context   Context
	Caps      []Cap
	Seed      uint64
}

// Payoffs is the assumption about payoffs.
type Payoffs string

const (
	Stochastic  Payoffs = "stochastic"  // the paper, section 3
	Adversarial Payoffs = "adversarial" // the paper, section 4
)

// Policy names a policy.Spec.
type Policy string

// Policies with settings or checks of their own.
const (
	Elimination   Policy = "elimination" // the paper's Algorithm 1
	MOSS          Policy = "moss"        // the default for stochastic payoffs
	EpsilonGreedy Policy = "egreedy"     // the paper's section 4.1
	FTRL          Policy = "ftrl"        // for adversarial payoffs; the default with delay: bold
	OSMD          Policy = "osmd"        // the paper's Algorithm 5
	Robust        Policy = "robust"      // for payoffs that change; the default
)

// Spec returns the policy's entry in the table of policies, or nil.
func (p Policy) Spec() *policy.Spec { return policy.SpecOf(string(p)) }

type Delay string

const (
	QPMD   Delay = "qpmd"   // the paper's appendix C.2, for stochastic payoffs
	Direct Delay = "direct" // fed on arrival, for stochastic payoffs and for robust
	BOLD   Delay = "bold"   // the paper's appendix C.2, for adversarial payoffs
)

type Radius string

const (
	SubGaussian Radius = "subgaussian" // σ·sqrt(2·log(4nt²/δ)/N)
	Paper       Radius = "paper"       // sqrt(log(4nt²/δ)/N), as printed; σ = 1/√2
)

type LossIndex string

const (
	ByItem LossIndex = "item" // to items
	ByRank LossIndex = "rank" // to utility ranks, for each list length separately (the paper's form for changing utilities)
)

// OrAuto is a number that may be left to the policy. Value is meaningless with Auto.
type OrAuto struct {
	Auto  bool
	Value float64
}

func (a OrAuto) String() string {
	if a.Auto {
		return "auto"
	}
	return formatFloat(a.Value)
}

// Range is an interval of raw payoffs, both ends included. Min < Max, and both and their difference are finite.
type Range struct{ Min, Max float64 }

// OnExpiry is the outcome of a selection without a payoff by its deadline.
type OnExpiry struct {
	Default *float64 // this payoff, in raw units within the payoff range; nil: dropped
}

type Silence string

const (
	Waits  Silence = "waits"   // none
	AtOnce Silence = "at_once" // as if never paid
	Ages   Silence = "ages"    // the probability, by its age, that it is never paid
)

type OutOfRange string

const (
	Clamp  OutOfRange = "clamp"  // it counts as the nearer end of the range
	Refuse OutOfRange = "refuse" // it is a dead letter, and its selection ends without a payoff
)

type Aggregate string

const (
	First Aggregate = "first" // the first in topic order
	Sum   Aggregate = "sum"   // their sum until the deadline
)

// Utilities is the source of the candidates' order.
type Utilities string

const (
	Given  Utilities = "given"  // in the impression
	Sorted Utilities = "sorted" // estimated from selections of users who all like the items in the same order
	Social Utilities = "social" // estimated from utilities that users publish with selections
)

// Experiment compares learners: one of the arms ranks an impression that names the experiment as its learner.
type Experiment struct {
	Name    string // of a learner
	Arms    []Arm  // in the file's order; at least two, shares add up to 1
	Control string // one of Arms
	By      Unit
	Period  time.Duration // by user: time until arms are drawn again; or Never
	Run     int           // from 1
	Unpaid  *float64      // payoff of an unpaid selection, in raw units; nil: by the learners' on_expiry
	Guard   Guard
	// Learning is the data that arms learn from. Shadow are learners that decide on a share of impressions each, without being shown.
	Learning Learning
	Shadow   []Arm
}

type Learning string

const (
	Separate Learning = "separate" // each from its own rankings
	Shared   Learning = "shared"   // all from all, as the control does
)

type Arm struct {
	Learner string
	Share   float64 // of units, above 0
}

type Unit string

const (
	ByImpression Unit = "impression"
	ByUser       Unit = "user"
)

// Never is an Experiment.Period: arms are assigned for good.
const Never time.Duration = -1

// Guard stops arms that do worse than the control.
type Guard struct {
	Margin   float64 // share of the control's mean payoff
	Fallback string  // the arm that ranks instead; empty: no guard
}

// DefaultLearner returns the learner of records that name none, or nil.
func (c *Config) DefaultLearner() *Learner {
	return find(c.Learners, func(l *Learner) bool { return l.Default })
}

// Learner returns the learner of a name, or nil.
func (c *Config) Learner(name string) *Learner {
	return find(c.Learners, func(l *Learner) bool { return l.Name == name })
}

// LearnerNames returns the names of all learners, in their order.
func (c *Config) LearnerNames() (names []string) {
	for i := range c.Learners {
		names = append(names, c.Learners[i].Name)
	}
	return names
}

// LearnerOrDefault returns the learner of a name, the default or only one for "", or nil.
func (c *Config) LearnerOrDefault(name string) *Learner {
	return find(c.Learners, func(l *Learner) bool { return l.Name == name || name == "" && (l.Default || len(c.Learners) == 1) })
}

// ExperimentOf returns the experiment named as a learner, or nil.
func (c *Config) ExperimentOf(learner string) *Experiment {
	return find(c.Experiments, func(x *Experiment) bool { return x.Name == learner })
}

// find returns the first element that is so, or nil.
func find[V any](all []V, is func(*V) bool) *V {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// Where returns a key with its position in the file, for errors that show only at run time: "worker.yaml:7: kafka.topics.rankings". A key
// that is not in the file has no line.
func (c *Config) Where(key string) string {
	at, ok := c.source.places[key]
	switch {
	case c.source.file == "":
		return key
	case !ok:
		return c.source.file + ": " + key
	}
	return fmt.Sprintf("%s:%d: %s", c.source.file, at.line, key)
}

type source struct {
	file   string
	places map[string]place // by key path, of keys in the file
}

// place is a position in the file, from 1.
type place struct{ line, column int }

// Secret is a string that is masked when printed, logged or marshalled. string(s) is the secret.
type Secret string

const Mask = "********"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Mask
}

func (s Secret) GoString() string { return strconv.Quote(s.String()) }

func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (l *Learner) believes() bool {
	k := l.Policy.Spec()
	return k != nil && k.Believes
}

// follows reports whether a learner's policy is robust: without losses, for payoffs that may change.
func (l *Learner) follows() bool {
	k := l.Policy.Spec()
	return k != nil && k.Follow != nil
}

// neverForgets returns the reason that items are kept for ever, or "".
func (l *Learner) neverForgets() string {
	switch {
	case l.Utilities == Sorted || l.Utilities == Social:
		return "the order of utilities that utilities: " + string(l.Utilities) + " finds is of all items"
	case l.Delay == BOLD:
		return "instances of bold have statistics of all items together"
	case l.Delay == QPMD:
		return "payoffs of any item may wait with qpmd"
	}
	return ""
}

// silenceWaits returns the reason that selections in flight cannot have a weight, or "".
func (l *Learner) silenceWaits() string {
	switch {
	case l.follows() && l.Aggregate == Sum:
		return string(l.Policy) + " learns from sums when they are whole"
	case l.Delay != Direct:
		return string(l.Delay) + " handles selections in flight itself; silence has an effect only with delay: direct"
	case l.OnExpiry.Default == nil:
		return "with on_expiry: drop an unpaid selection has no payoff; {default: x} sets it"
	}
	return ""
}

func (p Policy) DefaultDelay() Delay {
	switch k := p.Spec(); {
	case k == nil:
		return Direct
	case k.HasLosses():
		return BOLD
	case k.NotDirect != "":
		return QPMD
	}
	return Direct
}

// Serve configures the HTTP server of `ranker-worker serve`.
type Serve struct {
	Listen       string // host:port
	CertFile     string // PEM; empty: no TLS. Goes with KeyFile
	KeyFile      string
	TokensFile   string        // of permitted senders; empty: everybody who reaches Listen
	Timeout      time.Duration // of a wait for a ranking
	Remember     int64         // bytes of recent rankings kept in memory
	MaxBodyBytes int64         // of one request
	Concurrency  int           // concurrent requests
	Rate         int           // requests a second, in total
}

// Traces configures the destination of spans, by OTLP over HTTP, and their share. OpenTelemetry's own variables hold for the rest:
// OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY, _COMPRESSION and _TIMEOUT, OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_* and OTEL_SPAN_*.
type Traces struct {
	Endpoint string  // a URL without /v1/traces; empty: none
	Ratio    float64 // share of traces, unless an earlier program has decided
}

// Windows is the distribution of attention windows. At most one of List, Geometric and Zipf is given; without them it is learned from
// selections.
type Windows struct {
	List      []float64 // probability of window 1, 2, …
	Geometric *float64  // P(w) ∝ ratio^w
	Zipf      *float64  // P(w) ∝ w^−s
	Max       int       // longest window with a probability of its own; len(List) with List
}

// Prior is the distribution assumed of items' mean payoffs. Mean and SD are in payoff ranges, with 0 for the least possible payoff and 1
// for the largest. Only policy.FixedPrior uses them.
type Prior struct {
	Kind     policy.Prior
	Mean, SD float64
}

type Context struct {
	User, Item []Feature
	Cross      [][2]string // pairs of features, whose product is a feature too
	Missing    Missing
	Segments   []string // names of user groups, in the order of their numbers
	Categories bool     // items have categories
	Clock      []Turn   // turns of the clock by which items may pay differently
	TimeZone   string   // of the clock
	Age        bool     // items may pay differently by the time since they were first seen
}

type Turn string

type Feature struct {
	Name  string
	Range Range // of features.Predicted: of payoffs
	Scale Scale
}

// Scale is the placement of steps within a feature's range.
type Scale string

// Missing is the handling of an impression without a declared feature.
type Missing string

// Cap allows at most Most candidates of a category in the first First places.
type Cap struct {
	Category    string // empty: of each category
	Most, First int    // Most is below First
}
