package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/examples/movielens/data"
)

type play struct {
	opt     *options
	policy  string
	group   string
	dir     string
	binary  string
	errOut  io.Writer
	cfg     *config.Config
	log     *broker.Client
	tool    *admin.Tool
	players *players
	start   time.Time     // of the users' play
	whole   time.Duration // from start to the last ranking; 0 before
}

// newPlay prepares a run in a directory of its own below dir, with a new group.
func newPlay(opt *options, policy, dir, binary string, stream *data.Stream, means map[string]float64,
	films map[string]data.Film, errOut io.Writer) (*play, error) {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	p := &play{opt: opt, policy: policy, group: fmt.Sprintf("movielens-%s-%s", policy, hex.EncodeToString(id[:])),
		dir: filepath.Join(dir, policy), binary: binary, errOut: errOut,
		players: newPlayers(stream, means, films, opt.late)}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for the worker: %w", err)
	}
	return p, nil
}

// run plays from the creation of the topics to their removal.
func (p *play) run(ctx context.Context) (row result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opt.timeout, fmt.Errorf("it took longer than -timeout %v", p.opt.timeout))
	defer cancel()
	// This process does not need the worker's port.
	file, err := writeConfiguration(p.dir, p.opt, p.group, p.policy, "")
	if err != nil {
		return row, err
	}
	if p.cfg, _, err = config.LoadFile(file, os.LookupEnv); err != nil {
		return row, fmt.Errorf("the example's own configuration: %w", err)
	}
	if p.log, err = app.NewBroker(p.cfg); err != nil {
		return row, err
	}
	defer p.log.Close()
	if p.tool, err = admin.New(p.cfg, admin.Options{}); err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, p.tool.Close()) }()
	if err := p.createTopics(ctx); err != nil {
		return row, err
	}
	if !p.opt.keep {
		defer func() { err = errors.Join(err, p.remove()) }()
	}
	return p.withWorker(ctx)
}

const topicsTimeout = 30 * time.Second

func (p *play) createTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
	defer cancel()
	if _, err := p.log.Create(ctx, broker.Spec{Partitions: p.opt.partitions, Replication: 1}); err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for { // a broker takes a moment to lead a new topic
		problems, err := p.log.Check(ctx)
		if err == nil && len(problems) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the new topics are not fit after %v: %q, %w", topicsTimeout, problems, errors.Join(err, ctx.Err()))
		}
	}
}

// withWorker plays with a worker of its own, which it ends.
func (p *play) withWorker(ctx context.Context) (row result, err error) {
	w, err := startWorker(ctx, p.binary, p.dir, p.opt, p.group, p.policy)
	if err != nil {
		return row, fmt.Errorf("starting the worker: %w", err)
	}
	defer func() { err = errors.Join(err, w.end()) }() // no error after a stop
	fmt.Fprintf(p.errOut, "\n%s: a worker, process %d, works on %d partitions; its metrics: %s/metrics\n",
		p.policy, w.process.PID(), p.opt.partitions, w.url)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with ctx
		select {
		case <-w.process.Done():
			cancel(w.ended())
		case <-ctx.Done():
		}
	}()
	sent, err := p.play(ctx)
	if err == nil {
		err = settle(ctx, p.tool, sent)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if errors.Is(err, context.Canceled) {
			return row, errors.New("interrupted")
		}
		return row, fmt.Errorf("%w\nthe worker's log ends with:\n%s", err, w.process.Tail(logLines))
	}
	seconds := time.Since(p.start).Seconds()
	cancel(nil) // the worker may end from now on
	cpu, err := w.stop()
	if err != nil {
		return row, err
	}
	a, err := readAccount(context.WithoutCancel(ctx), p.tool)
	if err != nil {
		return row, err
	}
	if err := a.check(sent); err != nil {
		return row, err
	}
	row = p.result(&a, seconds, cpu)
	if p.policy == judging {
		fmt.Fprintf(p.errOut, "%s: judging %s by its log.\n", p.policy, strings.Join(judged, " and "))
		if row.Judged, err = p.judge(context.WithoutCancel(ctx)); err != nil {
			return row, fmt.Errorf("judging by its log: %w", err)
		}
	}
	return row, nil
}

// play lets the users play until everything has been sent, and shows progress.
func (p *play) play(ctx context.Context) (platform.Progress, error) {
	p.start = time.Now()
	p.players.last = func() { p.whole = time.Since(p.start) }
	return platform.New(platform.Options{Brokers: []string{p.opt.kafka}, Topics: app.TopicNames(p.cfg), Log: p.log,
		From: make([]int64, p.opt.partitions), Impressions: p.opt.impressions, Unanswered: p.opt.patience(),
		Every: 2 * time.Second, Progress: p.print,
		Stamp: func(event.Millis) event.Millis { return time.Now().UnixMilli() }}, p.players).Run(ctx)
}

func (p *play) print(now platform.Progress) {
	took, t := cmp.Or(p.whole, time.Since(p.start)), &p.players.tally
	fmt.Fprintf(p.errOut, "%-12s %3.0f %%  ranked %7d  payoffs %7d, to come %6d  mean payoff %.4f (by utility %.4f)  %6.0f/s\n", p.policy,
		100*float64(now.Rankings)/float64(p.opt.impressions), now.Rankings, now.Payoffs, now.Scheduled,
		t.mean(t.payoff), t.mean(t.byUtility), float64(now.Rankings)/took.Seconds())
}

const removeTimeout = 30 * time.Second

// remove deletes the topics, the group and the keys of this run.
func (p *play) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	topics := p.cfg.Kafka.Topics
	names := []string{topics.Impressions, topics.Selections, topics.Payoffs, topics.Rankings,
		topics.DLQ(topics.Impressions), topics.DLQ(topics.Selections), topics.DLQ(topics.Payoffs)}
	var errs []error
	if res, err := p.log.Kafka().DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: names}); err != nil {
		errs = append(errs, fmt.Errorf("removing topics: %w", err))
	} else {
		for name, err := range res.Errors {
			if err != nil {
				errs = append(errs, fmt.Errorf("removing topic %s: %w", name, err))
			}
		}
	}
	if res, err := p.log.Kafka().DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{p.group}}); err != nil {
		errs = append(errs, fmt.Errorf("removing group %s: %w", p.group, err))
	} else if err := res.Errors[p.group]; err != nil && !errors.Is(err, kafka.GroupIdNotFound) {
		errs = append(errs, fmt.Errorf("removing group %s: %w", p.group, err))
	}
	db := redis.NewClient(&redis.Options{Addr: p.opt.redis})
	defer func() { _ = db.Close() }()
	keys := db.Scan(ctx, 0, "{"+p.group+":*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := db.Unlink(ctx, keys.Val()).Err(); err != nil {
			return errors.Join(append(errs, fmt.Errorf("removing key %s: %w", keys.Val(), err))...)
		}
	}
	if err := keys.Err(); err != nil {
		errs = append(errs, fmt.Errorf("listing keys of %s: %w", p.group, err))
	}
	return errors.Join(errs...)
}
