// Package doctor diagnoses a deployment. It examines all servers that a configuration names (Kafka, its topics, the schema registry, Redis,
// the group's workers) as a worker would use them. Each finding has a verdict and a remedy. It changes nothing: no topic, key, offset,
// membership of the group, or producer.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

type Status string

const (
	OK      Status = "ok"
	Warning Status = "warning" // a worker runs; somebody should know
	Fault   Status = "fault"   // a worker does not run, or loses learned state
)

type Finding struct {
	Status Status `json:"status"`
	Area   string `json:"area"` // configuration, kafka, rights, topics, registry, partitioners, clock, redis, state, group
	// Message is the finding and, unless the status is ok, the remedy.
	Message string `json:"message"`
}

type Options struct {
	Progress func(string)     // receives the name of each step; may be nil
	Now      func() time.Time // nil: time.Now
}

// stepTimeout bounds each step.
const stepTimeout = 15 * time.Second

// Examine reads a configuration file and examines all servers in it. Each wait has a deadline: it ends within about two minutes even if
// servers are down.
func Examine(ctx context.Context, file string, env config.Env, opt Options) []Finding {
	d := &doctor{say: opt.Progress, now: opt.Now}
	if d.say == nil {
		d.say = func(string) {}
	}
	if d.now == nil {
		d.now = time.Now
	}
	if !d.configuration(file, env) {
		return d.found
	}
	for _, step := range []struct {
		says string
		look func(context.Context)
	}{
		{"connecting to the brokers", d.brokers},
		{"asking for this user's rights in Kafka", d.rights},
		{"looking at the topics", d.topics},
		{"looking at the topics' copies", d.copies},
		{"asking the schema registry", d.registry},
		{"connecting to Redis", d.redis},
		{"finding out by which partitioner keys are placed", d.partitioners},
		{"comparing the stored learners with those of the file", d.learners},
		{"comparing clocks", d.clock},
		{"comparing the workers' configurations", d.group},
	} {
		d.step(ctx, step.says, step.look)
	}
	d.broker.Close()
	_ = d.store.Close() // nothing was written
	return d.found
}

// step runs one step, and repeats its name every few seconds until it ends.
func (d *doctor) step(ctx context.Context, says string, look func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		look(ctx)
	}()
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		d.say(says)
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

func Faulty(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Status == Fault })
}

// doctor is one examination. Steps store their results for later ones. If a step fails, steps that need it are skipped.
type doctor struct {
	say func(string)
	now func() time.Time

	found []Finding

	cfg     *config.Config
	broker  *broker.Client
	store   *redisstore.Store
	machine map[string]string // fingerprints of the configured learners
	digest  string            // of all their settings

	reached bool                          // a broker was reached
	topic   [event.Topics]task.TopicFacts // as far as they are known
	servers []redisstore.Server           // of Redis; none if not reached
}

func (d *doctor) add(s Status, area, format string, args ...any) {
	d.found = append(d.found, Finding{s, area, fmt.Sprintf(format, args...)})
}

// configuration loads the file, and makes the clients. It reports whether the examination can continue.
func (d *doctor) configuration(file string, env config.Env) bool {
	const area = "configuration"
	cfg, warnings, err := config.LoadFile(file, env, config.KafkaFiles, config.RedisFiles, config.ServeFiles)
	if err != nil {
		var faults config.Faults
		if !errors.As(err, &faults) {
			d.add(Fault, area, "%v", err)
		}
		for _, f := range faults {
			d.add(Fault, area, "%s", f)
		}
		return false
	}
	for _, w := range warnings {
		w.Warning = false // the status says it
		d.add(Warning, area, "%s", w)
	}
	d.cfg, d.machine = cfg, map[string]string{}
	for i := range cfg.Learners {
		d.machine[cfg.Learners[i].Name] = cfg.Learners[i].Fingerprint()
	}
	if d.digest, err = cfg.Digest(); err == nil {
		d.broker, err = app.NewBroker(cfg)
	}
	if err == nil {
		if d.store, err = app.NewStore(cfg); err != nil {
			d.broker.Close()
		}
	}
	if err != nil {
		d.add(Fault, area, "%v", err)
		return false
	}
	if len(warnings) == 0 {
		d.add(OK, area, "%s: group %s, %s", file, cfg.Kafka.Group, plural.N(len(cfg.Learners), "learner"))
	}
	return true
}

// retried repeats a request while a coordinator starts: Kafka creates the coordinators' topics at the first request.
func retried[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	end := time.Now().Add(5 * time.Second)
	return broker.RetryWhile(ctx, func(err error) bool {
		young := errors.Is(err, kafka.GroupCoordinatorNotAvailable) || errors.Is(err, kafka.GroupLoadInProgress) ||
			errors.Is(err, kafka.NotCoordinatorForGroup)
		return young && time.Now().Before(end)
	}, ask)
}
