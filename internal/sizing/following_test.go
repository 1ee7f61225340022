package sizing

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// follower plays a worker that begins to follow, as stream/follow.go does. It reads one partition after the other in
// rounds. It reads the whole state of an unknown partition, or of one whose stream was trimmed. If it has not read
// the known ones for a while, it does so first.
type follower struct {
	asOf   []time.Duration // by partition: as of when; 0: it is not known
	now    time.Duration
	looked time.Duration // at all that are known, last
	wholes int

	one        time.Duration // to read one whole
	look, kept time.Duration
}

// follow looks at a partition that is known; false where its stream does not lead on.
func (f *follower) follow(p int) bool {
	began := f.now
	f.now += f.look
	if began-f.asOf[p] > f.kept {
		return false
	}
	f.asOf[p] = began
	return true
}

// once reads all partitions, and returns how many it had to read whole.
func (f *follower) once() (wholes int) {
	f.looked = f.now
	for p := range f.asOf {
		if f.asOf[p] == 0 || !f.follow(p) {
			f.asOf[p] = f.now // the state read is as of then
			f.now += f.one
			wholes++
		}
		if f.now-f.looked >= keepUp*time.Second {
			f.looked = f.now
			for known := range f.asOf {
				if f.asOf[known] > 0 {
					f.follow(known)
				}
			}
		}
	}
	f.wholes += wholes
	return wholes
}

// TestCatchesUp: the model's rule agrees with the play, both in whether a worker catches up and in the time. It
// counts each read as the last one, which takes longest.
func TestCatchesUp(t *testing.T) {
	ends := 0
	rapid.Check(t, func(t *rapid.T) {
		w := Standard()
		w.Partitions = rapid.IntRange(2, 1000).Draw(t, "partitions")
		w.Items = rapid.IntRange(20, 15_000_000).Draw(t, "items")
		model := w.Following()
		slack := (model.Behind - model.Kept).Abs()
		if slack < model.Kept/20 {
			return // at the edge it depends on how the rounds fall
		}
		waiting := roundTrip + (readMicros+readWorkerMicros)/1e6
		f := &follower{asOf: make([]time.Duration, w.Partitions), now: 1, one: model.One, look: seconds(waiting), kept: model.Kept}
		done := false
		for range 10 {
			if done = f.once() == 0; done {
				break
			}
		}
		assert.Equal(t, model.CatchesUp(), done)
		if done {
			assert.Equal(t, w.Partitions, f.wholes)
			ends++
		}
	})
	assert.Positive(t, ends)
}

// fleets are those of docs/understand/scale.md: 100 impressions a second in each partition.
var fleets = []struct{ workers, partitions, items, servers int }{
	{8, 64, 200_000, 3}, {25, 250, 1_000_000, 9}, {100, 1000, 1_000_000, 30}, {100, 1000, 10_000_000, 30},
}

// TestScalePage: the tables of the page are the model's, and so is its sentence on the largest fleet's reading.
func TestScalePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/understand/scale.md")
	require.NoError(t, err)
	for name, table := range map[string]string{"holds": holdsTable(), "moves": movesTable()} {
		assert.True(t, strings.Contains(string(page), table), "docs/understand/scale.md should have this table of what it %s:\n%s", name, table)
	}
	assert.Contains(t, strings.Join(strings.Fields(string(page)), " "), reading())
}

func fleet(workers, partitions, items int) *Workload {
	w := Standard()
	w.Workers, w.Partitions, w.Items, w.Rate = workers, partitions, items, 100*float64(partitions)
	return w
}

func workloads(row func(w *Workload, servers int) string) string {
	var b strings.Builder
	for _, f := range fleets {
		w := fleet(f.workers, f.partitions, f.items)
		fmt.Fprintf(&b, "| %s × %s × %s |%s\n", counted(float64(f.workers)), counted(float64(f.partitions)), counted(float64(f.items)), row(w, f.servers))
	}
	return b.String()
}

// span writes a time for people.
func span(d time.Duration) string {
	switch s := d.Seconds(); {
	case s >= 2*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	case s >= 120:
		return fmt.Sprintf("%.0f min", s/60)
	case s >= 10:
		return fmt.Sprintf("%.0f s", s)
	case s >= 1:
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.0f ms", 1e3*d.Seconds())
}

func reading() string {
	last := fleets[len(fleets)-1]
	w := fleet(last.workers, last.partitions, last.items)
	f := w.Following()
	looks := float64(w.Workers*w.Partitions) / f.Round.Seconds() / float64(last.servers)
	return fmt.Sprintf("With %s workers and %s partitions a worker looks at each partition every %s and reads %s/s. Each Redis answers %s looks/s with %.2f cores.",
		counted(float64(w.Workers)), counted(float64(w.Partitions)), span(f.Round), Bytes(f.Read), counted(looks), looks*readMicros/1e6)
}

func holdsTable() string {
	return workloads(func(w *Workload, servers int) string {
		e := NewEstimate(w)
		ids := e.Redis[0].Amount + e.Redis[1].Amount + e.Redis[2].Amount
		items := e.Redis.Total() - ids
		known, own := e.Worker[1].Amount, e.Worker[0].Amount+e.Worker[2].Amount+e.Worker[3].Amount
		n := float64(servers)
		return fmt.Sprintf(" %s | %s | %s | %s | %s |", Bytes(ids/n), Bytes(items/n), Bytes(known), Bytes(own), Bytes(e.Worker[4].Amount))
	})
}

func movesTable() string {
	return workloads(func(w *Workload, servers int) string {
		f := w.Following()
		still, known := takeover(w)
		takes := span(f.Whole)
		if !f.CatchesUp() {
			takes = "never ends"
		}
		all := time.Duration(float64(f.Busy) * float64(w.Partitions) * float64(w.Workers) / float64(servers))
		return fmt.Sprintf(" %s | %s | %s | %s | %s | %s | %s |", span(still), span(known), Bytes(f.WholeAll), takes, span(f.Behind), span(f.Busy), span(all))
	})
}

const (
	nameMicros  = 0.8 // to load the name of an item with a partition
	loadMicros  = 3.0 // and its statistics
	knownMicros = 0.6 // to learn of a known id
)

// takeover returns the pause of a partition that changes its owner, without Kafka's share, and how long its impressions are then
// looked up, until all ids are known.
func takeover(w *Workload) (still, known time.Duration) {
	ids := w.IDs()
	return seconds(float64(w.Items) * (nameMicros + w.known()*loadMicros) / 1e6), seconds(ids.All() / float64(w.Partitions) * knownMicros / 1e6)
}

// TestKnown_WithoutSelections: a payoff selects its item where there is no topic of selections, and an unpaid selection gives its item a row,
// too.
func TestKnown_WithoutSelections(t *testing.T) {
	w := Standard()
	usual := w.known()
	require.Positive(t, usual)
	w.Paid = 0
	require.Equal(t, usual, w.known())
	w = Standard()
	w.SelectionTimeout = 0
	f := factsOf(w)
	require.InDelta(t, f.paid(), w.known(), 1e-12)
	require.Positive(t, f.paid())
}
