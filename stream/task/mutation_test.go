package task

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// edit changes a passage of a source file that stands there once.
type edit struct{ file, old, edited string }

// edits let tests take rules out of the protocol, and observations out of replays. The names of the rules are the fields of sabotage, in
// mutants_test.go.
var edits = []edit{
	{"../replay/replay.go", "type Config struct {\n", "type Config struct {\n\tSabotage func(*partition.Observation) (drop bool)\n"},
	{"../replay/replayed.go", "	seen, err := partition.ReadSeen(d.Seen)\n", `	all, err := partition.ReadSeen(d.Seen)
	var seen []partition.Observation
	left := int64(0)
	for _, s := range all {
		s.Records += left
		if left = 0; p.cfg.Sabotage != nil && p.cfg.Sabotage(&s) {
			left = s.Records
			continue
		}
		seen = append(seen, s)
	}
`},
	{"config.go", "type Config struct {\n", "type Config struct {\n\tsabotage sabotage\n"},
	{"acquire.go", "if f != t.acq.meta.Fence {", "if f != t.acq.meta.Fence && !t.cfg.sabotage.unverified {"},
	{"adopt.go", "if exhausted && t.earlierVerified() {", "if exhausted && t.earlierVerified() || t.cfg.sabotage.noAdoption {"},
	{"adopt.go", "if len(r.replay.cursor.earlier) == 0 {", "if len(r.replay.cursor.earlier) == 0 || t.cfg.sabotage.behindUnseen {"},
	{"adopt.go", "!t.retired[p.ID] {", "!t.retired[p.ID] && !t.cfg.sabotage.unretired {"},
	{"adopt.go", "		if !c.ended && f.Next >= f.High &&", `
		if s := &t.cfg.sabotage; s.noFence && c.next >= f.High || s.listedEnd && c.next >= t.acq.facts.Topics[event.Rankings].End {
			end := c.next
			if s.listedEnd {
				end = min(end, t.acq.facts.Topics[event.Rankings].End)
			}
			c.end(end, end)
		}
		if !c.ended && f.Next >= f.High &&`},
	{"choose.go", "if !r.replay.cursor.decoded {", "if !r.replay.cursor.decoded && !r.cfg.sabotage.noAdoption {"},
	{"choose.go", "if r.replay.recorded.on {", "if r.replay.recorded.on && !r.cfg.sabotage.unordered {"},
	{"cursor.go", "if !cfg.AnyProducer {", "if !cfg.AnyProducer && !cfg.sabotage.foreigners {"},
	{"fence.go", "(first Producer, done func()) {", `(first Producer, done func()) {
		if t.cfg.sabotage.noFence {
			t.clock.learn(t.now.Wall, t.now.Mono, t.now.Mono)
			t.fenced(first, first, done)
			return
		}`},
	{"fence.go", "case i == len(ids):", "case i == len(ids) || t.cfg.sabotage.unretired:"},
	{"fence.go", "		ask(t, raising, callTimeout, InitProducer{held}, ", `
		asked := held
		if t.cfg.sabotage.freshFence {
			asked = noProducer
		}
		ask(t, raising, callTimeout, InitProducer{asked}, `},
	{"owner.go", "low int64) bool {", "low int64) bool {\n\tif t.cfg.sabotage.unverified {\n\t\treturn true\n\t}"},
	{"owner.go", "confirmOwnership(done func()) {", "confirmOwnership(done func()) {\n\tif t.cfg.sabotage.freshFence {\n\t\tdone()\n\t\treturn\n\t}"},
	{"produce.go", "Sequence: o.sequence,", "Sequence: t.cfg.sabotage.sequence(o.sequence),"},
	{"produce.go", "Sequence: d.sequence,", "Sequence: t.cfg.sabotage.sequence(d.sequence),"},
	{"run.go", "walkKnown(cursor uint64) {", "walkKnown(cursor uint64) {\n\tif t.cfg.sabotage.knownEarly {\n\t\tt.run.machine.KnownComplete()\n\t}"},
	{"run.go", "if apart == nil && !r.replay.on {", "if apart == nil && !r.replay.on || t.cfg.sabotage.ownClock {"},
	{"runner.go", "r.replay.cursor.position()", "r.cfg.sabotage.position(&r.replay.cursor)"},
	{"runner.go", "return r.lanes.acked(s.made)", "return r.cfg.sabotage.unacked || r.lanes.acked(s.made)"},
	{"runner.go", "q.len() > 0 {", "q.len() > 0 && !r.cfg.sabotage.unseenQueue {"},
	{"runner.go", "r.lookups.forgettable()", "r.cfg.sabotage.forgettable(&r.lookups)"},
	{"step.go", "	in.Now, in.Latest, _ = t.times()\n", "	in.Now, in.Latest, _ = t.times()\n\tt.cfg.sabotage.input(&in, t.now)\n"},
	{"step.go", "in.Decided, adopted = d, true", "in.Decided, adopted = t.cfg.sabotage.decided(&it.Record, d), true"},
	{"task.go", "	t.elsewhere = learners\n", "	t.elsewhere = learners\n\tif t.cfg.sabotage.strangers {\n\t\tt.elsewhere = partition.Elsewhere{}\n\t}\n"},
}

// TestMutations_AreCaught takes one rule out of the protocol at a time and shows that the simulation finds a violation. Rules that
// nothing in the simulation misses would not be tested by it. Shipped code has no hook for this: the edits are made in a copy, and
// tests named TestMutants run on that copy.
func TestMutations_AreCaught(t *testing.T) {
	source, copies := t.TempDir(), map[string]string{}
	for _, e := range edits {
		text, edited := copies[e.file]
		if !edited {
			b, err := os.ReadFile(e.file)
			require.NoError(t, err)
			text = string(b)
		}
		require.Equal(t, 1, strings.Count(text, e.old), "%s has to hold once: %q", e.file, e.old)
		copies[e.file] = strings.Replace(text, e.old, e.edited, 1)
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name, text := range copies {
		original, err := filepath.Abs(name)
		require.NoError(t, err)
		overlay.Replace[original] = filepath.Join(source, strings.ReplaceAll(name, "/", "-"))
		require.NoError(t, os.WriteFile(overlay.Replace[original], []byte(text), 0o600))
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	file := filepath.Join(source, "overlay.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	command := exec.CommandContext(t.Context(), "go", "test", "-tags", "mutants", "-overlay", file, "-vet=off", "-count=1", "-timeout=0", "-v",
		"-run", "^TestMutants", ".", "-schedules", strconv.Itoa(*schedules), "-seed", strconv.FormatUint(*firstSeed, 10))
	out, err := command.CombinedOutput()
	t.Logf("\n%s", out)
	require.NoError(t, err)
}
