package config

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Config is a whole configuration, with the defaults filled in.
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
	// Experiments are in the file's order, their names distinct and those of learners.
	Experiments []Experiment

	source source
}

// Kafka is the section kafka: brokers and topics.
type Kafka struct {
	Brokers []string // host:port; at least one
	Group   string   // also a part of every Redis key and of the transactional ids
	Start   Start    // where a group begins that has never run
	Topics  Topics
	Formats Formats
	// SchemaRegistry has the schemas that records name; needed with Avro alone.
	SchemaRegistry SchemaRegistry
	TLS            TLS
	SASL           SASL
}

// Format is how the records of a topic are written.
type Format string

// The values of the keys of kafka.formats.
const (
	JSON     Format = "json"
	Protobuf Format = "protobuf"
	Avro     Format = "avro"
)

// Formats are those of the input topics.
type Formats struct{ Impressions, Selections, Payoffs Format }

// Avro reports whether any topic has Avro.
func (f Formats) Avro() bool {
	return f.Impressions == Avro || f.Selections == Avro || f.Payoffs == Avro
}

// SchemaRegistry is a server with the interface of Confluent's Schema Registry.
type SchemaRegistry struct {
	URL          string // empty: there is none
	Username     string // for HTTP's basic authentication
	Password     Secret
	PasswordFile string // in place of Password; read at each request
	TokenFile    string // a bearer token, in place of a user; read at each request
	TLS          TLS
}

// Start is where a group begins that has never run.
type Start string

const (
	Latest   Start = "latest"
	Earliest Start = "earliest"
)

// Topics are the topics' names. They and their dead-letter topics are all distinct, also for Kafka's metrics, which
// take '.' and '_' for the same.
type Topics struct {
	Impressions string
	Selections  string // empty: there is none, and a payoff's item is the selection
	Payoffs     string
	Rankings    string
	DLQSuffix   string // appended to an input topic's name gives its dead-letter topic
}

// HasSelections reports whether a selections topic is configured.
func (t Topics) HasSelections() bool { return t.Selections != "" }

// DLQ is the name of an input topic's dead-letter topic.
func (t Topics) DLQ(topic string) string { return topic + t.DLQSuffix }

// TLS says how a connection is encrypted. File names are as in the file; nothing is read before a builder is called.
type TLS struct {
	Enabled    bool   // true as soon as any other key is set, unless the file says enabled: false
	CAFile     string // PEM; empty: the system's roots
	CertFile   string // PEM, the client's certificate; goes with KeyFile
	KeyFile    string
	ServerName string // expected in the server's certificate; empty: the host connected to
}

// SASL says how the worker proves to Kafka who it is. A Mechanism of "" means not at all.
type SASL struct {
	Mechanism    Mechanism
	Username     string // with TokenURL the client id
	Password     Secret // with TokenURL the client secret
	PasswordFile string // in place of Password; read at the start, and by each new connection
	TokenFile    string // of OAuthBearer; read at the start, and by each new connection
	TokenURL     string // of OAuthBearer, in place of TokenFile: who hands tokens out for client credentials
	TokenCAFile  string // PEM, for TokenURL; empty: the system's roots
	Scope        string // asked of TokenURL; empty: none
	Extensions   string // of OAuthBearer: name=value,name=value
	Region       string // of AWSMSKIAM; empty: that of the environment
}

// Mechanism is a SASL mechanism.
type Mechanism string

const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
	OAuthBearer Mechanism = "oauthbearer"
	AWSMSKIAM   Mechanism = "aws-msk-iam" // OAUTHBEARER for brokers, with tokens that AWS credentials sign
)

// Redis says where the checkpoints are. A redis.url of the file is taken apart into these fields.
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

// HTTP says where /livez, /readyz, /metrics and /version are served.
type HTTP struct {
	Listen string // host:port; empty: nowhere
	Page   bool   // also serve the live page at /
	Pprof  bool   // also serve /debug/pprof/
}

type Log struct {
	Level  string // debug, info, warn or error
	Format string // text or json
}

// Join bounds the wait of early payoffs and selections, and says how long ended impressions are remembered.
type Join struct {
	ParkingTime time.Duration // how long one waits
	Remember    time.Duration // from the end on, not below ParkingTime; or UntilHorizon
	MaxParked   int           // records, per partition; 0: nothing waits
}

// UntilHorizon is a Join.Remember: until the payoff deadline and the parking time are over.
const UntilHorizon time.Duration = -1

// Limits bound single records and the time between checkpoints.
type Limits struct {
	MaxCandidates      int
	MaxRecordBytes     int           // of an input record's value; a longer one goes to the DLQ
	CheckpointInterval time.Duration // the least time between two checkpoints of a partition
}

// Learner is one learner's configuration.
type Learner struct {
	Name             string // of [a-z0-9._-]
	Default          bool   // takes records that name no learner; always true for an only learner
	Payoffs          Payoffs
	Policy           Policy
	Delay            Delay
	Radius           Radius
	Sigma            float64 // sub-Gaussian scale σ of one payoff, in units of the payoff range; > 0
	EstimateSigma    bool    // σ is learned from payoffs; Sigma is its first value, and its maximum
	Prior            Prior
	Delta            Delta
	MaxInstances     int // of BASE, with delay bold; 0: as many as are outstanding
	LossIndex        LossIndex
	Eta              Eta
	Windows          Windows
	PayoffRange      Range // of one payoff, or of the sum with aggregate: sum
	PayoffHorizon    time.Duration
	SelectionTimeout time.Duration // not above PayoffHorizon; 0 where there is no selections topic
	ItemRetention    time.Duration // 0, or not below PayoffHorizon; 0 is for ever
	OutOfRange       OutOfRange
	// HalfLives and LookAgain are of robust. No key sets them, but tests: nil is recency.DefaultHalfLives, and 0 policy.DefaultLookAgain.
	HalfLives []time.Duration
	LookAgain float64
	OnExpiry  OnExpiry
	Silence   Silence
	Drift     float64 // deviations of a payoff a day
	Aggregate Aggregate
	Utilities Utilities
	Context   Context
	Seed      uint64
}

// Payoffs is the assumption about the source of payoffs.
type Payoffs string

const (
	Stochastic  Payoffs = "stochastic"  // the paper, section 3
	Adversarial Payoffs = "adversarial" // the paper, section 4
)

// Policy names the rule that makes rankings: a policy.Kind.
type Policy string

// Policies that something here is only about.
const (
	Elimination   Policy = "elimination" // the paper's Algorithm 1
	MOSS          Policy = "moss"        // the default for stochastic payoffs
	EpsilonGreedy Policy = "egreedy"     // the paper's section 4.1
	FTRL          Policy = "ftrl"        // for adversarial payoffs; the default where delay: bold is written
	OSMD          Policy = "osmd"        // the paper's Algorithm 5
	Robust        Policy = "robust"      // for payoffs that change; the default for adversarial ones
)

// Kind is the policy's entry in the table of policies; nil where there is none.
func (p Policy) Kind() *policy.Spec { return policy.KindOf(string(p)) }

// Delay names the way late payoffs are handled.
type Delay string

const (
	QPMD   Delay = "qpmd"   // the paper's appendix C.2, for stochastic payoffs
	Direct Delay = "direct" // fed on arrival, for stochastic payoffs and for robust
	BOLD   Delay = "bold"   // the paper's appendix C.2, for adversarial payoffs
)

// Radius names a confidence radius.
type Radius string

const (
	SubGaussian Radius = "subgaussian" // σ·sqrt(2·log(4nt²/δ)/N)
	Paper       Radius = "paper"       // sqrt(log(4nt²/δ)/N), as printed; σ = 1/√2
)

// Delta is the failure probability δ of the confidence radius.
type Delta struct {
	Auto  bool    // 1/t
	Value float64 // in (0,1); meaningless with Auto
}

func (d Delta) String() string {
	if d.Auto {
		return "auto"
	}
	return formatFloat(d.Value)
}

// Range is an interval of raw payoffs, both ends included; Min < Max, both finite, and so is their difference.
type Range struct{ Min, Max float64 }

// OnExpiry is the outcome of a selection whose payoff has not come by its deadline.
type OnExpiry struct {
	Default *float64 // counts as this payoff, in raw units and within the payoff range; nil: dropped
}

// Silence is the weight of a selection in flight.
type Silence string

const (
	Waits  Silence = "waits"   // nothing
	AtOnce Silence = "at_once" // as if it will never be paid
	Ages   Silence = "ages"    // as much of that as it is likely, by its age, never to be paid
)

// OutOfRange is the treatment of a payoff outside the payoff range.
type OutOfRange string

const (
	Clamp  OutOfRange = "clamp"  // it counts as the nearer end of the range
	Refuse OutOfRange = "refuse" // it is a dead letter, and its selection ends without a payoff
)

// Aggregate combines several payoffs of one impression.
type Aggregate string

const (
	First Aggregate = "first" // the first in topic order
	Sum   Aggregate = "sum"   // their sum until the deadline
)

// Utilities says where the candidates' order comes from.
type Utilities string

const (
	Given  Utilities = "given"  // it stands in the impression
	Sorted Utilities = "sorted" // it is found from selections, of users who all like the items in the same order
	Social Utilities = "social" // it is found from the estimates of their utility that users publish with selections
)

// Fingerprint names the settings that a learner's stored state depends on. State with another fingerprint is
// refused until it is reset or the learner renamed; all other settings may change freely.
func (l Learner) Fingerprint() string {
	f := fmt.Sprintf("%s range=%s..%s aggregate=%s delay=%s", l.Payoffs,
		formatFloat(l.PayoffRange.Min), formatFloat(l.PayoffRange.Max), l.Aggregate, l.Delay)
	if l.Payoffs == Adversarial {
		f += fmt.Sprintf(" policy=%s loss_index=%s", l.Policy, l.LossIndex)
	}
	return f + l.contextFingerprint()
}

// DefaultLearner is the learner of records that name none, or nil where there is no such learner.
func (c *Config) DefaultLearner() *Learner {
	for i := range c.Learners {
		if c.Learners[i].Default {
			return &c.Learners[i]
		}
	}
	return nil
}

// Where names a key with its place in the file, for errors that show only when the configuration meets the world:
// "worker.yaml:7: kafka.topics.rankings". A key that the file leaves to its default comes without a line.
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

// source remembers where a configuration came from.
type source struct {
	file   string
	places map[string]place // by key path, of the keys that the file sets
}

// place is a position in the file, both from 1.
type place struct{ line, column int }

// Secret is a string that does not show itself when printed, logged or marshalled. string(s) is the secret.
type Secret string

// Mask is shown in place of a secret.
const Mask = "********"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Mask
}

// GoString keeps %#v from showing the secret.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText keeps encoders, and slog's handlers, from showing the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
