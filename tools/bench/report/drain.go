package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/bench/copier"
)

// Pass is one program's run over the records. CPU times are per record and without the start: from the first output in the log.
type Pass struct {
	PerSecond float64
	CPU       time.Duration // of the program itself
	Kafka     time.Duration
	Redis     time.Duration
	Memory    int64 // peak resident memory up to the last output, in bytes; 0: unknown
	Stored    int64 // growth of Redis' memory up to a worker's end, in bytes
}

func rate(p *Pass) float64    { return p.PerSecond }
func cpu(p *Pass) float64     { return float64(p.CPU) }
func kafkas(p *Pass) float64  { return float64(p.Kafka) }
func redises(p *Pass) float64 { return float64(p.Redis) }
func memory(p *Pass) float64  { return float64(p.Memory) }

// program drains the inputs that a client names into rankings that it names.
type program struct {
	name string
	run  func(ctx context.Context, c *broker.Client, last bool) (Pass, error)
}

// rounds are passes by round and program.
type rounds [][]Pass

// run lets all programs drain the same impressions in turn, into rankings of their own.
func (b *bench) run(ctx context.Context, name string, s Size, all []program) (passes rounds, err error) {
	inputs := fmt.Sprintf("%s-%d", name, time.Now().UnixNano())
	c, err := b.filled(ctx, inputs, s)
	if err != nil {
		return nil, err
	}
	defer b.dropAll(ctx, c)
	for i := range b.Runs {
		round := make([]Pass, len(all))
		for k := range all {
			at := (i + k) % len(all) // so that the order affects all alike
			if round[at], err = b.pass(ctx, inputs, fmt.Sprintf("%s-%d-%d", inputs, i, at), all[at], i == b.Runs-1); err != nil {
				return nil, fmt.Errorf("%s: %w", all[at].name, err)
			}
			b.say("run %d: %s %v", i+1, all[at].name, &round[at])
		}
		passes = append(passes, round)
	}
	return passes, nil
}

func (b *bench) pass(ctx context.Context, inputs, run string, p program, last bool) (Pass, error) {
	c, err := b.create(ctx, b.topics(inputs, run), run)
	if err != nil {
		return Pass{}, err
	}
	defer b.drop(ctx, c, event.Rankings)
	return p.run(ctx, c, last)
}

func (p *Pass) String() string {
	return fmt.Sprintf("%.0f/s, CPU %v, Kafka's %v, Redis' %v, %d MiB, Redis %d MiB", p.PerSecond, p.CPU, p.Kafka, p.Redis, p.Memory>>20, p.Stored>>20)
}

type spread struct{ least, median, most float64 }

// over returns the spread of a quantity of the rounds, of at least one.
func (r rounds) over(of func([]Pass) float64) spread {
	var all []float64
	for _, round := range r {
		all = append(all, of(round))
	}
	slices.Sort(all)
	n := len(all)
	return spread{all[0], (all[(n-1)/2] + all[n/2]) / 2, all[n-1]}
}

func (r rounds) of(program int, quantity func(*Pass) float64) spread {
	return r.over(func(round []Pass) float64 { return quantity(&round[program]) })
}

// ratio is a program's quantity relative to another's of the same round.
func (r rounds) ratio(program, to int, quantity func(*Pass) float64) spread {
	return r.over(func(round []Pass) float64 { return quantity(&round[program]) / quantity(&round[to]) })
}

// topics of one run: inputs are shared, rankings are not.
func (b *bench) topics(inputs, run string) [event.Topics]string {
	return [event.Topics]string{inputs + "-impressions", inputs + "-selections", inputs + "-payoffs", run + "-rankings"}
}

func (b *bench) create(ctx context.Context, topics [event.Topics]string, group string) (*broker.Client, error) {
	c, err := broker.New(broker.Options{Brokers: []string{b.Kafka}, Group: group, DLQSuffix: ".dlq", Topics: topics})
	if err != nil {
		return nil, err
	}
	if _, err := c.Create(ctx, broker.Spec{Partitions: b.Partitions, Replication: 1}); err != nil {
		c.Close()
		return nil, err
	}
	for { // brokers take a moment to lead a new topic
		problems, err := c.Check(ctx)
		if err == nil && len(problems) == 0 {
			if _, err = b.ends(ctx, topics[event.Impressions], topics[event.Rankings]); err == nil {
				return c, nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			c.Close()
			return nil, fmt.Errorf("topics: %q: %w", problems, errors.Join(ctx.Err(), err))
		}
	}
}

func (b *bench) dropAll(ctx context.Context, c *broker.Client) {
	b.drop(ctx, c, event.Impressions, event.Selections, event.Payoffs, event.Rankings)
}

// drop deletes topics, and those whose names begin with theirs: dead letters, and Kafka Streams' own. After a run it deletes the rankings,
// to free disk and page cache for the next one.
func (b *bench) drop(ctx context.Context, c *broker.Client, topics ...event.Topic) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	all, err := b.kafka.ListTopics(ctx)
	if err == nil {
		_, err = b.kafka.DeleteTopics(ctx, slices.DeleteFunc(all.Names(), func(name string) bool {
			return !slices.ContainsFunc(topics, func(t event.Topic) bool { return strings.HasPrefix(name, c.Topic(t)) })
		})...)
	}
	if err != nil {
		b.say("topics are left behind: %v", err)
	}
}

const configuration = `kafka:
  brokers: [%q]
  group: %q
  start: earliest
  topics: {impressions: %q, selections: %q, payoffs: %q, rankings: %q}
  %s
redis: {url: "redis://%s/0"}
http: {listen: %q, pprof: true}
log: {level: warn}
learners:
  feed: %s
`

const (
	stochastic  = "{payoffs: stochastic, policy: elimination, delay: qpmd}"
	adversarial = "{payoffs: adversarial, policy: ftrl, delay: bold}"
)

// worker starts a worker with a group named like its rankings, and returns the address of its metrics.
func (b *bench) worker(ctx context.Context, c *broker.Client, learner string) (*child, string, error) {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return nil, "", err
	}
	listen := "127.0.0.1:" + strconv.Itoa(ports[0])
	group := c.Topic(event.Rankings)
	file := filepath.Join(b.dir, group+".yaml")
	text := fmt.Sprintf(configuration, b.Kafka, group, c.Topic(event.Impressions), c.Topic(event.Selections), c.Topic(event.Payoffs),
		group, b.formats, b.Redis, listen, learner)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", fmt.Errorf("write the worker's configuration: %w", err)
	}
	w, err := launch("worker", exec.CommandContext(ctx, filepath.Join(b.dir, "worker"), "run", "--config", file))
	return w, listen, err
}

// worked measures a worker's drain, and the growth of its Redis.
func (b *bench) worked(ctx context.Context, c *broker.Client, learner string, s Size, last bool) (Pass, error) {
	empty, err := usedMemory(ctx, b.Redis)
	if err != nil {
		return Pass{}, err
	}
	w, listen, err := b.worker(ctx, c, learner)
	if err != nil {
		return Pass{}, err
	}
	if last && b.Profile != "" {
		go b.profile(ctx, listen)
	}
	done := b.rankings(c, int64(b.Partitions)) // each partition's begin with the marker of its fence
	if s.Paid {
		done = b.paid(done, listen)
	}
	looking, stop := context.WithCancel(ctx)
	var viewers sync.WaitGroup
	defer viewers.Wait()
	defer stop()
	if s.Viewed {
		for range 10 {
			viewers.Go(func() { look(looking, "http://"+listen) })
		}
	}
	p, err := b.watch(ctx, w, done)
	if err != nil {
		return p, err
	}
	if log := w.log.String(); last && log != "" {
		b.say("the worker's log:\n%s", log)
	}
	full, err := usedMemory(ctx, b.Redis)
	p.Stored = full - empty
	return p, err
}

// alone measures a worker with a Redis of its own.
func (b *bench) alone(ctx context.Context, c *broker.Client, s Size, last bool) (p Pass, err error) {
	server, err := redis.Start(ctx, redis.Options{})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	own := *b
	own.Redis, own.RedisPID = server.Addr(), server.PID()
	return own.worked(ctx, c, usualLearner, s, last)
}

// Copy copies a topic by the worker's client.
func Copy(ctx context.Context, o Options, from, to string) error {
	c, err := broker.New(broker.Options{Brokers: []string{o.Kafka}, Group: "copier-" + to, DLQSuffix: ".dlq",
		Topics: [event.Topics]string{event.Impressions: from, event.Payoffs: from, event.Rankings: to}})
	if err != nil {
		return err
	}
	defer c.Close()
	return copier.Run(ctx, copier.Config{Client: c, Partitions: o.Partitions, Records: o.Impressions})
}

// copied measures Copy in a process of its own.
func (b *bench) copied(ctx context.Context, c *broker.Client, _ bool) (Pass, error) {
	this, err := os.Executable()
	if err != nil {
		return Pass{}, err
	}
	w, err := launch("copier", exec.CommandContext(ctx, this, "copier", "-partitions", strconv.Itoa(b.Partitions),
		"-impressions", strconv.FormatInt(b.Impressions, 10), "-from", c.Topic(event.Impressions), "-to", c.Topic(event.Rankings)))
	if err != nil {
		return Pass{}, err
	}
	w.ends = true
	return b.watch(ctx, w, b.rankings(c, 0))
}

const passLimit = 10 * time.Minute

// lookEvery is the interval of looks at progress, for which all brokers are asked.
const lookEvery = 20 * time.Millisecond

// progress returns the number of finished impressions.
type progress func(context.Context) (int64, error)

// rankings counts the logged rankings, without other records (besides).
func (b *bench) rankings(c *broker.Client, besides int64) progress {
	return func(ctx context.Context) (int64, error) {
		n, err := b.ends(ctx, c.Topic(event.Rankings))
		return n - besides, err // an error may be transient: nothing was counted
	}
}

// watch follows the number of finished impressions up to the last, without those before b.warm, and stops the program.
func (b *bench) watch(ctx context.Context, w *child, done progress) (p Pass, err error) {
	defer func() { err = cmp.Or(err, w.stop()) }()
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	var counted time.Time
	var before int64
	var own, kafkaCPU, redisCPU time.Duration
	ended := w.done
	for {
		n, err := done(ctx)
		if counted.IsZero() && n > b.warm {
			counted, before = time.Now(), n
			own, kafkaCPU, redisCPU = cpuTime(w.cmd.Process.Pid), cpuTime(b.KafkaPID), cpuTime(b.RedisPID)
		}
		if n >= b.Impressions {
			took, count := time.Since(counted), b.Impressions-before
			if count <= 0 {
				return Pass{}, fmt.Errorf("%s was seen to begin when it had ended: raise -impressions", w.name)
			}
			each := func(d time.Duration) time.Duration { return time.Duration(float64(d) / float64(count)) }
			end, memory := cpuTime(w.cmd.Process.Pid), peakResident(w.cmd.Process.Pid)
			if end == 0 { // it ended before the first look
				<-w.done
				end = w.cmd.ProcessState.UserTime() + w.cmd.ProcessState.SystemTime()
			}
			return Pass{PerSecond: float64(count) / took.Seconds(), CPU: each(end - own),
				Kafka: each(cpuTime(b.KafkaPID) - kafkaCPU), Redis: each(cpuTime(b.RedisPID) - redisCPU), Memory: memory}, nil
		}
		select {
		case <-ended: // its last records may not have been read
			ended = nil
			if w.err != nil {
				return Pass{}, w.died()
			}
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return Pass{}, fmt.Errorf("%s has done %d of %d impressions: %w", w.name, n, b.Impressions, errors.Join(ctx.Err(), err))
		}
	}
}

// ends returns the sum of the ends of topics' partitions.
func (b *bench) ends(ctx context.Context, topics ...string) (sum int64, err error) {
	ends, err := b.kafka.ListEndOffsets(ctx, topics...)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return 0, fmt.Errorf("looking at the end of %s: %w", topics, err)
	}
	ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, nil
}
