package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
)

// firstPages are read first: they make the topics, and start the worker and `serve`. The others follow by name, and lastPage: a worker
// waits for seconds before an impression of an unknown learner becomes a dead letter.
var (
	firstPages = []string{"kafka.md", "start-and-stop.md", "serve-over-http.md"}
	lastPage   = "dead-letters.md"
)

// lastCommands need stopped workers, and change or replace the state. They run in this order, after the commands of all pages.
var lastCommands = []*regexp.Regexp{
	regexp.MustCompile(`^ranker-worker state reset`),
	regexp.MustCompile(`^ranker-worker state import`),
	regexp.MustCompile(`^ranker-worker state rebuild`),
	regexp.MustCompile(`^ranker-worker state reshard|^for t in .*kafka-topics\.sh`),
}

// howTo is the configuration of the how-to pages.
const howTo = `kafka: {brokers: ['127.0.0.1:9092'], group: ranker}
redis: {url: 'redis://127.0.0.1:6379/0'}
learners:
  feed: &same {payoffs: stochastic, default: true, on_expiry: {default: 0}, silence: ages, out_of_range: clamp, item_retention: 1440h}
  control: {<<: *same, default: false, policy: utility}
experiments: {feed: {arms: {feed: 0.9, control: 0.1}, control: control}}
join: {remember: 24h}
`

// TestCommandsOfHowTosRun runs the commands of docs/do on one embedded pair, with one worker, one `serve` and their traffic.
func TestCommandsOfHowTosRun(t *testing.T) {
	pages := commandsByPage(t, "../../docs/do/*.md")
	h := newHowToReader(t)
	last := make([][]pageCommand, len(lastCommands))
	read := func(name string) {
		for _, c := range pages[name] {
			if k := slices.IndexFunc(lastCommands, func(one *regexp.Regexp) bool { return one.MatchString(c.text) }); k >= 0 {
				last[k] = append(last[k], c)
				continue
			}
			h.run(c)
		}
		delete(pages, name)
	}
	for _, name := range firstPages {
		require.NotEmpty(t, pages[name], name)
		read(name)
	}
	h.traffic()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if name != lastPage {
			read(name)
		}
	}
	h.deadLetters()
	read(lastPage)
	for _, w := range h.atWork {
		require.Equal(t, exitOK, w.stop(), w.errOut.String())
	}
	for _, c := range slices.Concat(last...) {
		h.run(c)
	}
}

// TestReasonsNotToRunAreNeeded: each reason is one of a command on a page.
func TestReasonsNotToRunAreNeeded(t *testing.T) {
	var all []pageCommand
	for _, pattern := range []string{"../../README.md", "../../docs/learn/*.md", "../../docs/do/*.md"} {
		for _, commands := range commandsByPage(t, pattern) {
			all = append(all, commands...)
		}
	}
	for beginning := range notRun {
		assert.True(t, slices.ContainsFunc(all, func(c pageCommand) bool { return strings.HasPrefix(c.text, beginning) }), "%q stands on no page", beginning)
	}
}

// commandsByPage returns the commands of the files that match a pattern, by their names without directories.
func commandsByPage(t *testing.T, pattern string) map[string][]pageCommand {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	pages := map[string][]pageCommand{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		pages[filepath.Base(file)] = commandsOf(string(text))
	}
	return pages
}

// howToReader is a reader of the how-to pages.
type howToReader struct {
	*reader
	env    testenv.Env
	worker string // address of the worker's HTTP
}

// newHowToReader starts the pair, and writes the files that the pages name.
func newHowToReader(t *testing.T) *howToReader {
	env := testenv.Embedded(t, kfake.NumBrokers(3))
	ports, err := proc.FreePorts(2)
	require.NoError(t, err)
	h := &howToReader{&reader{t: t, address: fmt.Sprintf("127.0.0.1:%d", ports[0])}, env, fmt.Sprintf("127.0.0.1:%d", ports[1])}
	t.Chdir(t.TempDir())
	text := strings.NewReplacer("127.0.0.1:9092", env.Kafka, "127.0.0.1:6379", env.Redis).Replace(howTo) +
		fmt.Sprintf("http: {listen: '%s'}\nserve: {listen: '%s', timeout: 10s}\n", h.worker, h.address)
	for name, changes := range map[string][]string{
		"worker.yaml": nil,
		"old.yaml":    nil,
		"new.yaml":    {"  control:", "  feed-v2: {<<: *same, default: false}\n  control:"},
		"log.yaml": {"group: ranker", "group: g, topics: {impressions: log-i, rankings: log-r, selections: log-s, payoffs: log-p}",
			"&same {", "&same {payoff_horizon: 24h, "}, // the topics of a log of some days
	} {
		require.NoError(t, os.WriteFile(name, []byte(strings.NewReplacer(changes...).Replace(text)), 0o600))
	}
	require.NoError(t, os.Mkdir("backups", 0o700))
	h.reader.run("ranker-worker topics --config log.yaml --create --partitions 1")
	id := regexp.MustCompile(`"impression_id":"([^"]*)"`)
	for flags := range slices.Chunk(recorded(t), 2) {
		short := flags[0][2:3]
		require.NoError(t, os.Rename(flags[1], short+".jsonl"))
		records, err := os.ReadFile(short + ".jsonl")
		require.NoError(t, err)
		var all []kafka.Message
		for record := range bytes.Lines(records) {
			all = append(all, kafka.Message{Key: id.FindSubmatch(record)[1], Value: bytes.TrimSpace(record)})
		}
		h.publish("log-"+short, 0, all...)
	}
	return h
}

// run runs each part of a command, after the event on the page that calls for it.
func (h *howToReader) run(c pageCommand) {
	switch {
	case strings.HasPrefix(c.text, "ranker-worker state rebuild"):
		h.env.Mini.FlushAll() // Redis has lost everything
	case strings.HasPrefix(c.text, "ranker-worker explain i-99"):
		h.visit("i-99")
	case strings.HasSuffix(c.text, " --recreated --yes"):
		h.recreate()
	}
	for part := range strings.SplitSeq(c.text, " && ") {
		switch {
		case reasonNotToRun(part) != "":
		case strings.HasPrefix(part, "for t in "):
			h.grow(part)
		case strings.HasPrefix(part, "curl -s"), strings.HasPrefix(part, "redis-cli"):
			h.shell(part)
		default:
			h.shows(h.reader.run(strings.Replace(part, "evaluate --config worker.yaml", "evaluate --config log.yaml", 1)), c.output)
		}
	}
}

// shell runs a command of another program, if it is installed. The embedded Redis has no settings, users and copies, so commands for these
// run on a real one, where tests may start it.
func (h *howToReader) shell(command string) {
	program, _, _ := strings.Cut(command, " ")
	url := h.env.RedisURL()
	_, missing := exec.LookPath(program)
	if regexp.MustCompile(`^redis-cli (?:ACL|CONFIG|--rdb)`).MatchString(command) && missing == nil {
		if _, missing = exec.LookPath("redis-server"); missing == nil && !testenv.Short() {
			url = "redis://" + testenv.OwnRedis(h.t, redis.Options{Args: []string{"--repl-diskless-sync-delay", "0"}}).Addr
		} else {
			missing = cmp.Or(missing, errors.New("it needs a real Redis"))
		}
	}
	if h.t.Log(command); missing != nil {
		h.t.Logf("left out: %v", missing)
		return
	}
	command = strings.NewReplacer("redis-cli", "redis-cli -e -u "+url, "127.0.0.1:9108", h.worker).Replace(command)
	out, err := exec.CommandContext(h.t.Context(), "sh", "-c", command).CombinedOutput()
	require.NoError(h.t, err, string(out))
	assert.NotEmpty(h.t, out, command)
}

// visit sends an impression, whose selection is paid.
func (h *howToReader) visit(id string) {
	h.post(fmt.Sprintf(`{"impression_id":%q,"candidates":[{"item":"film-1","utility":0.1},{"item":"film-42","utility":0.7}]}`, id), "/v1/rank", "rank")
	h.post(fmt.Sprintf(`{"impression_id":%q,"item":"film-42"}`, id), "/v1/selections", "selections")
	h.post(fmt.Sprintf(`{"impression_id":%q,"payoff":1}`, id), "/v1/payoffs", "payoffs")
}

// traffic sends records that the pages name: impression i-77, item film-42, and dead letters up to payoffs/3/1042.
func (h *howToReader) traffic() {
	for k := 61; k < 80; k++ {
		h.visit(fmt.Sprintf("i-%d", k))
	}
	h.atWork[0].publish("unknown", "i-unknown")
	h.publish("payoffs", 3, slices.Repeat([]kafka.Message{{Value: []byte("x")}}, 1043)...)
}

// deadLetters waits for those of traffic.
func (h *howToReader) deadLetters() {
	require.Eventually(h.t, func() bool {
		return run(h.t, "", "dlq", "show", "--config", "worker.yaml", "payoffs/3/1042").code == exitOK &&
			strings.Contains(run(h.t, "", "dlq", "replay", "--config", "worker.yaml", "--reason", "unknown_learner").out, "1 record")
	}, 45*time.Second, 10*time.Millisecond)
}

// client has a transport of its own: an older one may not know the topics.
func (h *howToReader) client() *kafka.Client {
	transport := &kafka.Transport{}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(h.env.Kafka), Transport: transport}
}

// publish writes records to a partition.
func (h *howToReader) publish(topic string, partition int, records ...kafka.Message) {
	c := h.client()
	to := kafka.Writer{Addr: c.Addr, Transport: c.Transport, Topic: topic, BatchSize: 10_000, BatchTimeout: time.Millisecond,
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return partition })}
	require.NoError(h.t, to.WriteMessages(h.t.Context(), records...))
	require.NoError(h.t, to.Close())
}

// topics are all topics of worker.yaml.
var topics = []string{"impressions", "impressions.dlq", "selections", "selections.dlq", "payoffs", "payoffs.dlq", "rankings"}

// grow adds partitions to all topics, as the page says of its command for one of them.
func (h *howToReader) grow(command string) {
	loop := regexp.MustCompile(`^for t in (.*); do .* --partitions (\d+); done$`).FindStringSubmatch(command)
	require.NotNil(h.t, loop, command)
	count, err := strconv.Atoi(loop[2])
	require.NoError(h.t, err)
	require.ElementsMatch(h.t, topics, strings.Fields(loop[1]))
	req := &kafka.CreatePartitionsRequest{}
	for _, name := range topics {
		req.Topics = append(req.Topics, kafka.TopicPartitionsConfig{Name: name, Count: int32(count)})
	}
	res, err := h.client().CreatePartitions(h.t.Context(), req)
	require.NoError(h.t, err)
	require.NoError(h.t, errors.Join(slices.Collect(maps.Values(res.Errors))...))
}

// recreate deletes all topics and makes them again.
func (h *howToReader) recreate() {
	res, err := h.client().DeleteTopics(h.t.Context(), &kafka.DeleteTopicsRequest{Topics: topics})
	require.NoError(h.t, err)
	require.NoError(h.t, errors.Join(slices.Collect(maps.Values(res.Errors))...))
	h.reader.run("ranker-worker topics --config worker.yaml --create --partitions 6")
}
