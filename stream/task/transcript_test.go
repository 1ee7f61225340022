package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/internal/test/transcript"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestTranscripts runs the transcripts in testdata. Output is each request with
// its reply, as "process: request: reply", and each new phase. The commands:
//
//	start [quietly]           another process takes over; the old one is cut off and silent. Quietly: it does so
//	                          until it runs, without output
//	impression | selection | payoff ID …    appends records: ID, or ID/ITEM, or ID/PAYOFF
//	run [DURATION]            until all records in the topics are in the store, or the task has stopped; or for this long
//	hold REQUEST              requests of that name do not arrive
//	drop                      they never will; later ones do
//	release                   they do, kept by the network; the senders get the replies
//	backup, restore           of the store
//	forget                    the transaction coordinator forgets the producer id
//	delete RECORDS TOPIC      a topic begins this much later
//	log                       prints the rankings topic
//	stored [HASH]             prints the store
//
// "Adopted" counts decisions that were read from the log. Empty fetches, good probes and offset commits are left out.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) func([]string) []string {
		tr := &script{t: t, texts: map[state.ID]string{}}
		return func(words []string) []string {
			tr.lines = nil
			tr.run(words)
			return tr.lines
		}
	})
}

// script is a driver that writes a transcript.
type script struct {
	t      *testing.T
	d      *driver
	held   []kept
	backup memstore.Copy
	phase  Phase
	tally  int64 // decisions adopted by the present process
	lines  []string
	texts  map[state.ID]string // of the ids of records
}

// kept is a request that did not arrive yet.
type kept struct {
	p *proc
	Request
}

func (tr *script) say(format string, args ...any) {
	tr.lines = append(tr.lines, fmt.Sprintf(format, args...))
}

func (tr *script) run(words []string) {
	if tr.d == nil {
		require.Equal(tr.t, "start", words[0], "the first command")
		tr.d = newDriver(nil)
		tr.d.w.fetchMost = 100
		tr.d.shell = func(s shell) Shell { return scribe{s, tr} }
		tr.start(words[1:])
		return
	}
	d, args := tr.d, words[1:]
	switch words[0] {
	case "start":
		d.start()
		tr.start(args)
	case "impression", "selection", "payoff":
		tr.append(words[0], args)
	case "run":
		tr.drive(args)
	case "hold":
		d.holdBack = func(r Request) bool {
			if name(r.Do) != args[0] {
				return false
			}
			tr.held = append(tr.held, kept{d.p, r})
			tr.say("%d: %s: held back", d.p.gen, args[0])
			return true
		}
	case "drop":
		d.holdBack, tr.held = nil, nil
	case "release":
		tr.release()
	case "backup":
		tr.backup = d.w.store.Copy(0)
	case "restore":
		d.w.store.Restore(0, tr.backup)
	case "forget":
		d.w.forget()
	case "delete":
		topic := slices.Index(topicWords[:], args[1])
		_, err := fmt.Sscan(args[0], &d.w.logStart[topic])
		require.NoError(tr.t, err)
	case "log":
		tr.log()
	case "stored":
		tr.stored(args)
	default:
		require.Fail(tr.t, "unknown command", words[0])
	}
}

// start notes that there is a new process.
func (tr *script) start(args []string) {
	tr.phase, tr.tally = Done, 0
	if len(args) > 0 {
		lines := tr.lines
		tr.drive(nil)
		tr.lines = lines
	}
}

func (tr *script) append(what string, args []string) {
	for _, arg := range args {
		id, of, _ := strings.Cut(arg, "/")
		tr.texts[idOf(id)] = id
		switch what {
		case "impression":
			tr.d.w.append(event.Impressions, []byte(id), fmt.Appendf(nil,
				`{"impression_id":"%s","candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]}`, id))
		case "selection":
			tr.d.w.append(event.Selections, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","item":"%s"}`, id, of))
		default:
			tr.d.w.append(event.Payoffs, []byte(id), fmt.Appendf(nil, `{"impression_id":"%s","payoff":%s}`, id, of))
		}
	}
}

// drive lets time pass, and notes each new phase.
func (tr *script) drive(args []string) {
	d, within, done := tr.d, time.Minute, tr.d.idle
	if len(args) > 0 {
		var err error
		within, err = time.ParseDuration(args[0])
		require.NoError(tr.t, err)
		done = func() bool { return false }
	}
	err := d.run(within, func() bool {
		s := d.p.task.Status()
		if n := d.p.task.obs.Adopted; n != tr.tally {
			tr.say("%d: adopted %d", d.p.gen, n-tr.tally)
			tr.tally = n
		}
		if s.Phase != tr.phase {
			tr.phase = s.Phase
			tr.say("%d = %s", d.p.gen, s.Phase)
			if s.Phase == Stopped {
				tr.say("%d = %s: %v", d.p.gen, s.Reason, s.Err)
			}
		}
		return s.Phase == Stopped || done()
	})
	require.True(tr.t, err == nil || len(args) > 0, "%v", err)
}

// entries are the ids under which something is stored.
func (tr *script) entries(c memstore.Copy) (all []string) {
	for id := range c.Entries() {
		all = append(all, tr.texts[id])
	}
	slices.Sort(all)
	return all
}

func (tr *script) release() {
	d := tr.d
	d.holdBack = nil
	held := tr.held
	tr.held = nil
	for _, k := range held {
		reply := k.Carry(d.shell(shell{d.w, k.p}))
		before := k.p.task.Phase()
		k.p.task.Handle(d.w.now(k.p), reply)
		if after := k.p.task.Phase(); after != before {
			tr.say("%d = %s: %v", k.p.gen, after, k.p.task.Status().Err)
		}
	}
}

// log lists rankings.
func (tr *script) log() {
	for offset, l := range tr.d.w.rankings {
		if l.marker {
			tr.say("%d: abort marker of %s", offset, producer(l.producer))
			continue
		}
		if l.value == nil {
			tr.say("%d: order record %s, by %s", offset, l.key, producer(l.producer))
			continue
		}
		r, err := parseRecord(l.value)
		require.NoError(tr.t, err)
		tr.say("%d: %s, impression %d, by %s", offset, r.ID, r.Decision.Offset, producer(l.producer))
	}
}

func (tr *script) stored(hashes []string) {
	c := tr.d.w.store.Copy(0)
	if len(hashes) == 0 {
		m := c.Meta()
		tr.say("%s, %s", fence(m.Fence), cut(&m))
		tr.say("entries: %s", strings.Join(tr.entries(c), " "))
	}
	for _, h := range hashes {
		fields := c.Hash(h)
		for _, f := range slices.Sorted(maps.Keys(fields)) {
			if shown(h, f) {
				tr.say("%s %s: %s", h, f, fields[f])
			}
		}
	}
}

// shown reports whether a field is shown: of "meta" only the outcomes of records.
func shown(hash, field string) bool {
	return hash != "meta" || strings.HasPrefix(field, "account.") && !strings.HasSuffix(field, ".read")
}

// scribe is a shell that writes down requests and replies.
type scribe struct {
	shell
	tr *script
}

var topicWords = [event.Topics]string{"impressions", "selections", "payoffs", "rankings"}

// name is that of a request: its type's, in small letters.
func name(e Effect) string { return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "task.")) }

func producer(p Producer) string { return fmt.Sprintf("%d/%d", p.ID, p.Epoch) }

func fence(f state.Fence) string { return fmt.Sprintf("%s/%d", f.Token, f.Seq) }

func cut(m *state.Meta) string {
	var inputs [event.Inputs]int64
	for i := range m.Inputs {
		inputs[i] = m.Inputs[i].Offset
	}
	return fmt.Sprintf("inputs %v, rankings %d, producer %s", inputs, m.Rankings, producer(Producer{m.ProducerID, m.ProducerEpoch}))
}

// said writes one exchange down: reply, unless there is an error.
func said[R any](s scribe, asked string, r R, err error, reply string) (R, error) {
	if err != nil {
		reply = "error: " + err.Error()
	}
	s.tr.say("%d: %s: %s", s.p.gen, asked, reply)
	return r, err
}

// did is for requests without a reply.
func did(s scribe, asked string, err error) error {
	_, err = said(s, asked, nothing{}, err, "done")
	return err
}

func (s scribe) Heartbeat() error { return did(s, "heartbeat", s.shell.Heartbeat()) }

func (s scribe) Acquire(e Acquire) (state.Meta, error) {
	asked := "acquire"
	if e.Fresh != nil {
		asked += ", beginning with " + cut(e.Fresh)
	}
	m, err := s.shell.Acquire(e)
	return said(s, asked, m, err, fence(m.Fence)+", "+cut(&m))
}

func (s scribe) Load(e Load) ([]state.Field, error) {
	r, err := s.shell.Load(e)
	return said(s, "load", r, err, fmt.Sprintf("%d fields", len(r)))
}

func (s scribe) LookUp(e LookUp) (LookedUp, error) {
	r, err := s.shell.LookUp(e)
	var found []string
	for i, v := range r.Values {
		what := "nothing"
		if v != nil {
			what = "stored"
		}
		found = append(found, fmt.Sprintf("%s %s", s.tr.texts[e.Places[i].ID], what))
	}
	return said(s, "look up", r, err, strings.Join(found, ", "))
}

func (s scribe) Due(e Due) (DueEntries, error) {
	r, err := s.shell.Due(e)
	return said(s, "due", r, err, fmt.Sprintf("%d ids", len(r.Entries)))
}

func (s scribe) KnownIDs(e KnownIDs) (Known, error) {
	r, err := s.shell.KnownIDs(e)
	known := 0
	for _, p := range r.Pages {
		known += len(p.IDs)
	}
	return said(s, "known ids", r, err, fmt.Sprintf("%d", known))
}

func (s scribe) Checkpoint(e Checkpoint) error {
	err := s.shell.Checkpoint(e)
	if err = did(s, fmt.Sprintf("checkpoint on %s, %s", fence(e.Checkpoint.Fence), cut(&e.Checkpoint.Meta)), err); err != nil {
		return err
	}
	for _, x := range e.Checkpoint.Changes.Entries {
		what := "entry"
		if x.Value == nil {
			what = "no entry"
		}
		s.tr.say("     %s %s", what, s.tr.texts[x.ID])
	}
	for _, x := range e.Checkpoint.Changes.Writes {
		switch {
		case !shown(x.Hash, string(x.Field)):
		case x.Value == nil:
			s.tr.say("     no %s %s", x.Hash, x.Field)
		default:
			s.tr.say("     %s %s: %s", x.Hash, x.Field, x.Value)
		}
	}
	return nil
}

// Probe is shown where the store is not as the task left it.
func (s scribe) Probe() (state.Fence, error) {
	f, err := s.shell.Probe()
	if r := s.p.task.run; r != nil && err == nil && r.owner.verify(f, r.owner.fence.Seq, r.checkpoints.inFlight > 0) == nil {
		return f, nil
	}
	return said(s, "probe", f, err, fence(f))
}

func (s scribe) InitProducer(e InitProducer) (Producer, error) {
	p, err := s.shell.InitProducer(e)
	return said(s, "init producer "+producer(e.Producer), p, err, producer(p))
}

func (s scribe) AddPartition(e AddPartition) error {
	return did(s, "add partition "+producer(e.Producer), s.shell.AddPartition(e))
}

func (s scribe) Retire(e Retire) error {
	return did(s, fmt.Sprintf("retire %d", e.ProducerID), s.shell.Retire(e))
}

func (s scribe) AbortTxn(e AbortTxn) error {
	return did(s, "abort "+producer(e.Producer), s.shell.AbortTxn(e))
}

func (s scribe) Describe() (Description, error) {
	d, err := s.shell.Describe()
	var logs []string
	for i, f := range d.Topics {
		logs = append(logs, fmt.Sprintf("%s %d to %d", topicWords[i], f.LogStart, f.End))
	}
	return said(s, "describe", d, err, strings.Join(logs, ", "))
}

func (s scribe) Committed() ([]int64, error) {
	r, err := s.shell.Committed()
	return said(s, "committed", r, err, fmt.Sprint(r))
}

// Fetch is shown where it finds something.
func (s scribe) Fetch(e Fetch) (Fetched, error) {
	f, err := s.shell.Fetch(e)
	if err == nil && f.Next == e.Offset {
		return f, nil
	}
	return said(s, fmt.Sprintf("fetch %s from %d", topicWords[e.Topic], e.Offset), f, err, found(&f))
}

// found are the records and markers of an answer.
func found(f *Fetched) string {
	var parts []string
	for i := range f.Records {
		r, err := parseRecord(f.Records[i].Value)
		if err != nil {
			r = &foldRecord{ID: "?"}
		}
		parts = append(parts, r.ID)
	}
	for _, m := range f.Markers {
		parts = append(parts, "abort marker of "+producer(m.Producer))
	}
	return strings.Join(parts, ", ")
}

func (s scribe) Produce(e Produce) (Produced, error) {
	var keys []string
	for i := range e.Messages {
		keys = append(keys, string(e.Messages[i].Key))
	}
	to := topicWords[e.Topic]
	if e.DeadLetters {
		to = "dead letters of " + to
	}
	r, err := s.shell.Produce(e)
	return said(s, fmt.Sprintf("produce to %s by %s, sequence %d: %s", to, producer(e.Producer), e.Sequence, strings.Join(keys, " ")), r, err,
		fmt.Sprintf("at %d", r.BaseOffset))
}
