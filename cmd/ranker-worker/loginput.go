package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// logInput selects the log of decisions: a configuration's topics, or files of their records.
type logInput struct {
	learner  string
	from, to string
	files    [event.Topics]string
}

var topicFlags = [event.Topics]string{event.Impressions: "impressions", event.Selections: "selections", event.Payoffs: "payoffs", event.Rankings: "rankings"}

func (i *logInput) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&i.learner, "learner", "", "whose decisions (default: the configuration's default learner, or the first of the log)")
	i.sourceFlags(cmd, event.Impressions, event.Rankings, event.Selections, event.Payoffs)
}

// sourceFlags adds the flags that select the log.
func (i *logInput) sourceFlags(cmd *cobra.Command, topics ...event.Topic) {
	f := cmd.Flags()
	f.StringVar(&i.from, "from", "", "impressions from this `TIME` on: 2026-10-01, 2026-10-01T12:00:00Z, or how long ago: 72h")
	f.StringVar(&i.to, "to", "", "impressions before this `TIME`")
	for _, topic := range topics {
		name := topicFlags[topic]
		f.StringVar(&i.files[topic], name, "", "read "+name+" from `FILE`, each line a record's JSON or one of kcat -J, or - for standard input")
	}
}

type openLog struct {
	name    string
	cfg     *config.Config
	query   *joinedlog.Query
	sources []joinedlog.Source
	release func()
}

func (o *openLog) close() {
	for _, s := range o.sources {
		_ = s.Close() // only read
	}
	o.release()
}

// open opens the log. units is the range of payoffs without a configuration.
func (i *logInput) open(c *call, units config.Range) (*openLog, error) {
	read := c.load
	switch {
	case c.file == "" && i.anyFile():
		read = func(...config.Files) (*config.Config, error) { return i.unconfigured(units) }
	case c.findFile() != nil:
		return nil, usageError{errors.New("no input: give --config, or --impressions, --rankings and --payoffs, or --flat")}
	}
	cfg, err := read()
	if err != nil {
		return nil, err
	}
	q, err := i.query(cfg)
	if err != nil {
		return nil, err
	}
	return i.openQuery(c, cfg, q)
}

func (i *logInput) anyFile() bool {
	return slices.ContainsFunc(i.files[:], func(f string) bool { return f != "" })
}

func (i *logInput) openQuery(c *call, cfg *config.Config, q *joinedlog.Query) (*openLog, error) {
	out := &openLog{cfg: cfg, query: q, release: func() {}}
	var err error
	if i.anyFile() {
		out.name = "files"
		out.sources, err = i.openFiles(c.cmd.InOrStdin(), q)
		return out, err
	}
	b, err := app.NewBroker(out.cfg)
	if err != nil {
		return nil, err
	}
	out.name, out.release = "kafka", b.Close
	if out.sources, err = joinedlog.OpenTopics(c.ctx, b, out.query); err != nil {
		b.Close()
		return nil, err
	}
	return out, nil
}

// unconfigured returns the configuration of a log without one.
func (i *logInput) unconfigured(units config.Range) (*config.Config, error) {
	name := i.learner
	if name == "" {
		name = "log"
	}
	l, _, err := config.ReadLearner(name, i.files[event.Selections] != "", []config.Setting{{"payoffs", string(config.Stochastic)},
		{"payoff_range", fmt.Sprintf("[%v, %v]", units.Min, units.Max)}, {"on_expiry", "drop"}})
	if err != nil {
		return nil, err
	}
	l.Name = i.learner
	cfg := &config.Config{Learners: []config.Learner{l}, Join: config.Join{ParkingTime: time.Hour}}
	cfg.Kafka.Topics.Selections = i.files[event.Selections]
	return cfg, nil
}

// read reads the log, and shows its progress.
func (o *openLog) read(c *call) (*joinedlog.Log, error) {
	o.query.Progress = func(at event.Millis, records int64, share float64) {
		c.sayShare(fmt.Sprintf("reading: %s, up to %s", plural.N(records, "record"), time.UnixMilli(at).UTC().Format(time.DateOnly)), share, c.began)
	}
	return joinedlog.Read(c.ctx, o.sources, o.query)
}

func (i *logInput) query(cfg *config.Config) (*joinedlog.Query, error) {
	q := &joinedlog.Query{HasSelections: cfg.Kafka.Topics.HasSelections() || i.files[event.Selections] != "", Parking: cfg.Join.ParkingTime, Formats: app.Formats(cfg)}
	if !i.anyFile() {
		q.Group = cfg.Kafka.Group
	}
	if q.Learner = cfg.LearnerOrDefault(i.learner); q.Learner == nil {
		return nil, chooseLearner(cfg)
	}
	var err error
	if q.From, err = momentFlag("from", i.from); err != nil {
		return nil, err
	}
	q.To, err = momentFlag("to", i.to)
	return q, err
}

// chooseLearner returns the error of --learner without a learner of its name, and of its absence without a default one.
func chooseLearner(cfg *config.Config) error {
	return usageError{fmt.Errorf("--learner: choose one of %s", strings.Join(cfg.LearnerNames(), ", "))}
}

// momentFlag reads a time on the command line, in milliseconds since the Unix epoch; 0 for none.
func momentFlag(name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.UnixMilli(), nil
	}
	t, err := parseMoment(text, time.Now())
	if err != nil {
		return 0, usageError{fmt.Errorf("--%s: %w", name, err)}
	}
	return t.UnixMilli(), nil
}

func (i *logInput) openFiles(stdin io.Reader, q *joinedlog.Query) (all []joinedlog.Source, err error) {
	defer func() {
		if err != nil {
			for _, s := range all {
				_ = s.Close()
			}
		}
	}()
	used := ""
	for _, topic := range []event.Topic{event.Impressions, event.Rankings, event.Selections, event.Payoffs} {
		name := i.files[topic]
		var s joinedlog.Source
		switch {
		case topic == event.Selections && !q.HasSelections, topic == event.Impressions && q.Accept != nil:
			continue
		case name == "":
			return all, usageError{fmt.Errorf("--%s is missing: rankings and payoffs are needed, selections if there are any, and impressions for other policies",
				topicFlags[topic])}
		case name != "-":
			s, err = joinedlog.OpenLines(topic, name)
		case used != "":
			return all, usageError{fmt.Errorf("--%s and --%s cannot both be standard input", used, topicFlags[topic])}
		default:
			used = topicFlags[topic]
			s, err = joinedlog.OpenInput(topic, stdin)
		}
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}
