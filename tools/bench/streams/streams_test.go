package streams

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/tools/bench/copier"
)

func TestVersionIsTheBrokers(t *testing.T) {
	pom, err := os.ReadFile("pom.xml")
	require.NoError(t, err)
	m := regexp.MustCompile(`<artifactId>kafka-streams</artifactId><version>([^<]+)</version>`).FindSubmatch(pom)
	require.NotNil(t, m)
	require.Equal(t, realkafka.Version, string(m[1]))
}

func TestMissingJarsSayWhatToDo(t *testing.T) {
	t.Setenv(realkafka.CacheEnv, t.TempDir())
	_, err := jars()
	require.ErrorIs(t, err, realkafka.ErrMissing)
	require.ErrorContains(t, err, "make tools")
}

const (
	partitions = 2
	items      = 60
	impression = 200
	deadline   = 3 * time.Minute
)

// Each impression is ranked once, with its candidates, and payoffs decide
// the rankings that follow, as in a fold of the partition in plain Go.
func TestJob(t *testing.T) {
	if testenv.Short() {
		t.Skip("needs a real Kafka: make test")
	}
	env := testenv.Kafka(t)
	for name, rocks := range map[string]bool{"memory": false, "rocksdb": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			group := testenv.Unique(t, "streams")
			topics := [event.Topics]string{group + "-impressions", group + "-selections", group + "-payoffs", group + "-rankings"}
			c, err := broker.New(broker.Options{Brokers: []string{env.Addr}, Group: group, DLQSuffix: ".dlq", Topics: topics})
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Create(ctx, broker.Spec{Partitions: partitions, Replication: 1})
			require.NoError(t, err)
			require.NoError(t, copier.Fill(ctx, copier.Config{Client: c, Partitions: partitions, Records: impression, Items: items, Paid: true}))

			cmd, err := Command(ctx, Config{Brokers: env.Addr, Application: group, Topics: topics, RocksDB: rocks, Threads: 2, Dir: t.TempDir()})
			require.NoError(t, err)
			var log bytes.Buffer
			cmd.Stdout, cmd.Stderr = &log, &log
			cmd.Env = append(os.Environ(), "JDK_JAVA_OPTIONS=-XX:TieredStopAtLevel=1") // faster to start
			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			until := func(what string, done func() bool) {
				t.Helper()
				for !done() {
					select {
					case err := <-ended:
						require.Fail(t, "it ended before "+what, "%v\n%s", err, log.String())
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
						_ = cmd.Process.Kill()
						<-ended
						require.Fail(t, "in vain: "+what, log.String())
					}
				}
			}
			until("all is taken in", func() bool { return committed(ctx, c) == 3*impression })

			// Every partition ranks all that was shown before, as its own payoffs have it.
			var w kafka.Writer
			w.Addr, w.Topic, w.BatchSize, w.Balancer = kafka.TCP(env.Addr), topics[event.Impressions], 1, kafka.Murmur2Balancer{}
			defer func() { require.NoError(t, w.Close()) }()
			for p := range partitions {
				id, value := last(p)
				text, err := json.Marshal(map[string]any{"impression_id": id, "candidates": value})
				require.NoError(t, err)
				require.NoError(t, w.WriteMessages(ctx, kafka.Message{Key: []byte(id), Value: text}))
			}
			until("the last are ranked", func() bool { return committed(ctx, c) == 3*impression+partitions })
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			require.NoError(t, <-ended, "%s", log.String())

			ranked := map[string][]string{}
			for p := range partitions {
				for _, r := range read(ctx, t, c, event.Rankings, p) {
					var v struct {
						ID    string `json:"impression_id"`
						Items []string
					}
					require.NoError(t, json.Unmarshal(r.Value, &v))
					require.Equal(t, string(r.Key), v.ID)
					require.NotContains(t, ranked, v.ID, "once each")
					ranked[v.ID] = v.Items
				}
			}
			require.Len(t, ranked, impression+partitions)
			for p := range partitions {
				id, candidates := last(p)
				require.Equal(t, oracle(ctx, t, c, p, candidates), ranked[id], "partition %d", p)
			}
			for p := range partitions {
				for _, r := range read(ctx, t, c, event.Impressions, p) {
					var v struct{ Candidates []candidate }
					require.NoError(t, json.Unmarshal(r.Value, &v))
					var names []string
					for _, i := range v.Candidates {
						names = append(names, i.Item)
					}
					require.ElementsMatch(t, names, ranked[string(r.Key)])
				}
			}
		})
	}
}

type candidate struct {
	Item    string  `json:"item"`
	Utility float64 `json:"utility"`
}

// last is an impression of partition p of all items, whose utilities are in no order that an index would have.
func last(p int) (id string, all []candidate) {
	for i := 0; id == "" || state.PartitionOf([]byte(id), partitions) != int32(p); i++ {
		id = fmt.Sprintf("last-%d", i)
	}
	all = make([]candidate, items)
	for i := range all {
		all[i].Item, all[i].Utility = fmt.Sprintf("item-%06d", i), float64(i*37%items)
	}
	return id, all
}

// oracle folds a partition. On top is the largest index of all, then the largest of those with more utility, and so on. Below each are the
// candidates that it blocks.
func oracle(ctx context.Context, t *testing.T, c *broker.Client, p int, candidates []candidate) (order []string) {
	selected, n, sum := map[string]string{}, map[string]float64{}, map[string]float64{}
	for _, r := range read(ctx, t, c, event.Selections, p) {
		var v struct{ Item string }
		require.NoError(t, json.Unmarshal(r.Value, &v))
		selected[string(r.Key)] = v.Item
	}
	payoffs, paid := 0.0, 0.0
	for _, r := range read(ctx, t, c, event.Payoffs, p) {
		var v struct{ Payoff float64 }
		require.NoError(t, json.Unmarshal(r.Value, &v))
		n[selected[string(r.Key)]]++
		sum[selected[string(r.Key)]] += v.Payoff
		payoffs++
		paid += v.Payoff
	}
	index := func(item string) float64 {
		weight := n[item] + 1
		return (sum[item]+paid/payoffs)/weight + math.Sqrt(0.5*math.Log(1+payoffs/items/weight)/weight)
	}
	left := slices.SortedFunc(slices.Values(candidates), func(a, b candidate) int { return cmp.Compare(a.Utility, b.Utility) })
	for len(left) > 0 {
		best := 0
		for i := range left {
			if index(left[i].Item) > index(left[best].Item) {
				best = i
			}
		}
		for i := best; i >= 0; i-- {
			order = append(order, left[i].Item)
		}
		left = left[best+1:]
	}
	return order
}

// read returns a partition's records.
func read(ctx context.Context, t *testing.T, c *broker.Client, topic event.Topic, p int) (all []partition.Record) {
	t.Helper()
	for next := int64(0); ; {
		f, err := c.Partition(int32(p)).Fetch(ctx, task.Fetch{Topic: topic, Offset: next, MaxBytes: 1 << 20, MaxWait: time.Second})
		require.NoError(t, err)
		all = append(all, f.Records...)
		if next = f.Next; f.LastRead {
			return all
		}
	}
}

// committed is how many records of all inputs the group of c has committed.
func committed(ctx context.Context, c *broker.Client) (n int64) {
	for p := range int32(partitions) {
		offsets, err := c.Partition(p).Committed(ctx)
		if err != nil { // the group's coordinator takes a moment to be there
			return 0
		}
		for _, at := range offsets {
			n += max(0, at)
		}
	}
	return n
}
