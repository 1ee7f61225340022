package doctor_test

import (
	"os"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/doctor"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// has reports whether a line begins with begin and contains part.
func has(lines, begin, part string) bool {
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, begin) && strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// TestLostState: a group without state that has committed offsets is refused by its workers.
func TestLostState(t *testing.T) {
	s := of(t, testenv.Embedded(t))
	s.make(t, three)
	client := kafka.Client{Addr: kafka.TCP(s.brokers)}
	_, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{GroupID: s.group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{s.group + "-p": {{Partition: 1, Offset: 7}}}})
	require.NoError(t, err)
	s.finds(t, doctor.Options{}, [2]string{"fault state", "partition 1: the group has run before, but its state is gone: rebuild it with " +
		"`ranker-worker state rebuild`, restore the store"}, [2]string{"fault state", "committed offset 7 of " + s.group + "-p[1]"})
}

// TestStoredLearners: the file's learners are compared with those stored in each partition.
func TestStoredLearners(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		s := of(t, env)
		s.make(t, three)
		s.finds(t, doctor.Options{}, [2]string{"ok state", "nothing is stored for group " + s.group + " yet"})
		cfg, _, err := config.LoadFile(s.file(t), os.LookupEnv)
		require.NoError(t, err)
		store, err := app.NewStore(cfg)
		require.NoError(t, err)
		defer store.Close()
		begun := "" // the experiment of feed
		keep := func(p int32, layout int, lines ...string) {
			t.Helper()
			meta := state.Meta{Layout: layout, ClusterID: "c", TopicNames: []string{"i", "s", "p", "r"}, Partitions: 3, Inputs: make([]state.Position, 3),
				ProducerID: -1}
			m, err := store.Acquire(t.Context(), p, 0, true, &meta)
			require.NoError(t, err)
			c := state.Checkpoint{Fence: m.Fence, ID: testenv.Unique(t, "c"), Meta: meta}
			for i := 0; i < len(lines); i += 2 {
				c.Changes.Writes = append(c.Changes.Writes, state.Write{Hash: state.MetaHash, Field: []byte("learner." + lines[i]), Value: []byte(lines[i+1])})
			}
			if begun != "" {
				c.Changes.Writes = append(c.Changes.Writes, state.Write{Hash: partition.ExperimentsHash, Field: []byte("feed:run"), Value: []byte(begun)})
			}
			require.NoError(t, store.Checkpoint(t.Context(), p, &c))
		}
		own := `{"no":0,"fingerprint":"` + strings.ReplaceAll(cfg.Learners[0].Fingerprint(), `"`, `\"`) + `","account":{}}`
		keep(0, task.StateLayout, "feed", own)
		keep(1, task.StateLayout, "feed", own)
		s.finds(t, doctor.Options{}, [2]string{"ok state", "stored: 2 partitions, with the learners of this file"})
		keep(1, task.StateLayout, "feed@0", strings.Replace(own, `{}}`, `{"impressions.pending":7}}`, 1), "feed", strings.Replace(own, `"no":0`, `"no":1`, 1))
		s.finds(t, doctor.Options{}, [2]string{"ok state", "stored: 2 partitions, with the learners of this file"}) // feed was reset
		keep(1, task.StateLayout, "feed", own)

		s.experiment = "{arms: {feed: 0.5, front: 0.5}, control: front}"
		keep(0, task.StateLayout, "feed", own, "front", strings.Replace(own, `"no":0`, `"no":1`, 1))
		s.finds(t, doctor.Options{}, [2]string{"ok state", "stored: 2 partitions, with the learners of this file"})
		tried, _, err := config.LoadFile(s.file(t), os.LookupEnv)
		require.NoError(t, err)
		begun = "1 1 0 " + learners.Definition(tried, &tried.Experiments[0])
		keep(1, task.StateLayout, "feed", own)
		s.finds(t, doctor.Options{}, [2]string{"ok state", "stored: 2 partitions, with the learners of this file"})
		s.experiment = "{arms: {feed: 0.9, front: 0.1}, control: front}"
		s.finds(t, doctor.Options{}, [2]string{"fault state", "partition 1: partition: experiment does not fit the stored state: run 1 of experiment"})
		s.experiment = "{arms: {feed: 0.9, front: 0.1}, control: front, run: 2}"
		s.finds(t, doctor.Options{}, [2]string{"ok state", "stored: 2 partitions, with the learners of this file"})
		s.experiment, begun = "", ""

		keep(1, task.StateLayout, "feed", `{"no":0,"fingerprint":"another","account":{}}`)
		keep(2, task.StateLayout, "feed", `{"no":0,"fingerprint":"another","account":{}}`, "front", `{"no":1,"fingerprint":"f","account":{"impressions.pending":7}}`,
			"old", `{"no":2,"fingerprint":"f","account":{}}`)
		s.finds(t, doctor.Options{}, [2]string{"fault state", "learner feed is stored as another on partitions 1-2"},
			[2]string{"fault state", "state reset --config F --learner feed --yes"},
			[2]string{"warning state", "learner front is stored and not in this file, and has 7 pending impressions"}, [2]string{"ok state", "learner old is stored and not"})

		keep(0, task.StateLayout+1)
		s.finds(t, doctor.Options{}, [2]string{"fault state", "run the version that wrote it"})
	})
}
