package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Drain is one run of each program over the same records: the worker, and the worker with an adversarial learner. Copier copies
// the records by the worker's client, and does nothing else.
type Drain struct{ Worker, Adversarial, Copier Pass }

// Pass is one program's run over the records. CPU times are per record and without the start: from the first output in the log.
type Pass struct {
	PerSecond  float64
	CPU        time.Duration // of the program itself
	Kafka      time.Duration
	Redis      time.Duration
	FirstAfter time.Duration // from the program's start
	Memory     int64         // peak resident memory up to the last output, in bytes; 0: unknown
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
	for {
		err := b.usable(ctx, c)
		if err == nil {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			c.Close()
			return nil, errors.Join(ctx.Err(), err)
		}
	}
	return c, nil
}

// usable reports whether new topics can be written and read: brokers take a moment to lead a new topic, and kafka-go's client to see it.
func (b *bench) usable(ctx context.Context, c *broker.Client) error {
	problems, err := c.Check(ctx)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("topics: %s", problems[0])
	}
	for _, t := range []event.Topic{event.Impressions, event.Rankings} {
		if err == nil {
			_, err = b.ends(ctx, c, t)
		}
	}
	return err
}

// drop deletes a run's rankings, to free disk and page cache for the next run.
func (b *bench) drop(ctx context.Context, c *broker.Client) { b.dropTopics(ctx, c, event.Rankings) }

func (b *bench) dropAll(ctx context.Context, c *broker.Client) {
	b.dropTopics(ctx, c, event.Impressions, event.Selections, event.Payoffs, event.Rankings)
}

// dropTopics deletes topics, and those whose names begin with theirs: dead letters, and Kafka Streams' own.
func (b *bench) dropTopics(ctx context.Context, c *broker.Client, topics ...event.Topic) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	meta, err := c.Kafka().Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		b.say("topics are left behind: %v", err)
		return
	}
	var names []string
	for _, topic := range meta.Topics {
		if slices.ContainsFunc(topics, func(t event.Topic) bool { return strings.HasPrefix(topic.Name, c.Topic(t)) }) {
			names = append(names, topic.Name)
		}
	}
	_, _ = c.Kafka().DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: names})
}

func (b *bench) drains(ctx context.Context, r *Report) error {
	inputs := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	c, err := b.filled(ctx, inputs, Size{Partitions: b.Partitions, Items: 20_000})
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range b.Runs {
		var d Drain
		run := fmt.Sprintf("%s-%d", inputs, i)
		if err := inTurn(i,
			func() (err error) {
				d.Worker, err = b.workerPass(ctx, inputs, run+"-w", stochastic, i == b.Runs-1)
				return err
			},
			func() (err error) {
				d.Adversarial, err = b.workerPass(ctx, inputs, run+"-a", adversarial, false)
				return err
			},
			func() (err error) { d.Copier, err = b.copierPass(ctx, inputs, run+"-c"); return err },
		); err != nil {
			return err
		}
		for _, p := range []struct {
			name string
			Pass
		}{{"worker", d.Worker}, {"adversarial worker", d.Adversarial}, {"copier", d.Copier}} {
			b.say("run %d: %s %.0f/s, CPU %v, Kafka's %v, Redis' %v, first output after %v", i+1, p.name, p.PerSecond, p.CPU, p.Kafka,
				p.Redis, p.FirstAfter.Round(time.Millisecond))
		}
		b.say("run %d: ratio %.2f", i+1, d.Worker.PerSecond/d.Copier.PerSecond)
		r.Drains = append(r.Drains, d)
	}
	return nil
}

// inTurn makes the passes of the i-th run, whose order alternates, so that it affects all alike.
func inTurn(i int, passes ...func() error) error {
	if i%2 == 1 {
		slices.Reverse(passes)
	}
	for _, pass := range passes {
		if err := pass(); err != nil {
			return err
		}
	}
	return nil
}

const configuration = `kafka:
  brokers: [%q]
  group: %q
  start: %s
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

// worker starts a worker of its own group, and returns the address of its metrics.
func (b *bench) worker(ctx context.Context, topics [event.Topics]string, group, start, learner string) (*child, string, error) {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return nil, "", err
	}
	listen := "127.0.0.1:" + strconv.Itoa(ports[0])
	file := filepath.Join(b.dir, group+".yaml")
	text := fmt.Sprintf(configuration, b.Kafka, group, start, topics[0], topics[1], topics[2], topics[3], b.formats, b.Redis, listen, learner)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", fmt.Errorf("write the worker's configuration: %w", err)
	}
	c, err := b.start(ctx, "worker", "run", "--config", file)
	return c, listen, err
}

func (b *bench) workerPass(ctx context.Context, inputs, run, learner string, last bool) (Pass, error) {
	topics := b.topics(inputs, run)
	c, err := b.create(ctx, topics, run)
	if err != nil {
		return Pass{}, err
	}
	defer b.drop(ctx, c)
	w, listen, err := b.worker(ctx, topics, run, "earliest", learner)
	if err != nil {
		return Pass{}, err
	}
	if last && b.Profile != "" {
		go b.profile(ctx, listen)
	}
	// Each partition's rankings begin with the marker of its fence.
	p, err := b.watch(ctx, w, b.rankings(c, int64(b.Partitions)))
	if stopErr := w.stop(); err == nil {
		err = stopErr
	}
	if log := w.log.String(); last && log != "" {
		b.say("the worker's log:\n%s", log)
	}
	return p, err
}

func (b *bench) copierPass(ctx context.Context, inputs, run string) (Pass, error) {
	topics := b.topics(inputs, run)
	c, err := b.create(ctx, topics, run)
	if err != nil {
		return Pass{}, err
	}
	defer b.drop(ctx, c)
	w, err := b.start(ctx, "copier", "-brokers", b.Kafka, "-partitions", strconv.Itoa(b.Partitions),
		"-records", strconv.FormatInt(b.Impressions, 10), "-from", topics[event.Impressions], "-to", topics[event.Rankings])
	if err != nil {
		return Pass{}, err
	}
	p, err := b.watch(ctx, w, b.rankings(c, 0))
	select {
	case <-w.done:
	case <-time.After(stopGrace):
		err = fmt.Errorf("the copier does not end: %w", w.stop())
	}
	return p, err
}

const passLimit = 10 * time.Minute

// lookEvery is the interval of requests for the log's end, one for all partitions.
const lookEvery = 10 * time.Millisecond

// progress returns the number of finished impressions.
type progress func(context.Context) (int64, error)

// rankings counts the logged rankings, without other records (besides).
func (b *bench) rankings(c *broker.Client, besides int64) progress {
	return func(ctx context.Context) (int64, error) {
		n, err := b.ends(ctx, c, event.Rankings)
		return n - besides, err // an error may be transient: nothing was counted
	}
}

// watch follows the number of finished impressions up to the last, without those before b.warm.
func (b *bench) watch(ctx context.Context, w *child, done progress) (Pass, error) {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	began := time.Now()
	var first, counted time.Time
	var before int64
	var own, kafkaCPU, redisCPU time.Duration
	ended := w.done
	for {
		n, err := done(ctx)
		if first.IsZero() && n > 0 {
			first = time.Now()
		}
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
				Kafka: each(cpuTime(b.KafkaPID) - kafkaCPU), Redis: each(cpuTime(b.RedisPID) - redisCPU),
				FirstAfter: first.Sub(began), Memory: memory}, nil
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

func (b *bench) ends(ctx context.Context, c *broker.Client, t event.Topic) (int64, error) {
	asked := make([]kafka.OffsetRequest, b.Partitions)
	for p := range asked {
		asked[p] = kafka.LastOffsetOf(p)
	}
	topic := c.Topic(t)
	res, err := c.Kafka().ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return 0, fmt.Errorf("looking at the end of %s: %w", topic, err)
	}
	var sum int64
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return 0, fmt.Errorf("looking at the end of %s: %w", topic, p.Error)
		}
		sum += p.LastOffset
	}
	return sum, nil
}
