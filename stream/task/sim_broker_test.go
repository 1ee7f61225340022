package task

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// broker is the simulated Kafka: one partition of each topic, one transactional id.
type broker struct {
	w        *world
	cluster  string
	inputs   [event.Inputs][]logged
	rankings []logged
	letters  [event.Inputs][]logged

	partitions int
	letterless bool // dead-letter topics have fewer partitions than needed
	logStart   [event.Topics]int64
	openTxn    [event.Inputs]int64 // where an upstream producer's open transaction begins; -1: none

	txn       Producer // newest
	txnOpen   bool
	lastTxn   Producer // before the last bump that its owner asked for
	lastEpoch int16    // after this one comes another producer id
	producers map[producerKey]*producerState

	storeFault  error
	loseMarkers int // so many of the next abort markers

	skew      int64               // of its clock, in milliseconds
	epochs    [event.Inputs]int32 // of the leaders of input topics
	fetchMost int                 // records of an answer; 0: from 1 to 20, at random
	fewest    [event.Inputs]bool  // topics of which an answer has one record or two
	stale     bool                // listed end offsets are up to 0.9 s old
	letterMax int                 // bytes of a batch of dead letters; 0: no limit
}

type logged struct {
	key, value []byte
	headers    []Header
	timestamp  event.Millis
	marker     bool // a control record
	aborted    bool // of an aborted transaction: no reader of committed records sees it
	producer   Producer
}

// clock is the broker's.
func (b *broker) clock() event.Millis { return b.w.wall + b.skew }

type producerKey struct {
	topic   event.Topic
	letters bool
	id      int64
}

type producerState struct {
	epoch    int16
	next     int32
	lastSeq  int32
	lastN    int
	lastBase int64
	lastTime event.Millis
}

func newBroker(w *world) broker {
	return broker{w: w, cluster: "sim", partitions: 1, openTxn: [event.Inputs]int64{-1, -1, -1}, txn: Producer{4000, -1},
		lastTxn: Producer{-1, -1}, lastEpoch: 32766, producers: map[producerKey]*producerState{}}
}

func (b *broker) append(topic event.Topic, key, value []byte) {
	b.inputs[topic] = append(b.inputs[topic], logged{key: key, value: value, timestamp: b.w.wall})
}

// upstream begins or ends a transaction of a producer of an input topic. Those that abort leave junk behind.
func (b *broker) upstream(topic event.Topic) {
	at := &b.openTxn[topic]
	l := logged{timestamp: b.w.wall, key: []byte("junk"), value: []byte("junk"), aborted: true}
	if *at < 0 {
		*at = int64(len(b.inputs[topic]))
		b.inputs[topic] = append(b.inputs[topic], l)
		return
	}
	l.marker = true
	b.inputs[topic] = append(b.inputs[topic], l)
	*at = -1
}

// visible counts the records that a reader of committed ones sees.
func (b *broker) visible(topic event.Topic) (n int64) {
	for _, l := range b.inputs[topic] {
		if !l.aborted && !l.marker {
			n++
		}
	}
	return n
}

// initProducer is Kafka's: a call without a producer fences, one with the newest raises its epoch, and one that repeats
// a request whose reply was lost changes nothing. Where a transaction is open it is aborted under a higher epoch first.
func (b *broker) initProducer(p Producer) (Producer, error) {
	switch {
	case p.ID >= 0 && p == b.lastTxn && !b.txnOpen:
		return b.txn, nil
	case p.ID >= 0 && p != b.txn: // not the newest, or of an id that was forgotten
		return noProducer, ErrFenced
	case b.txnOpen:
		b.txn.Epoch++
		b.endTxn()
		return noProducer, errors.New("sim: concurrent transactions")
	}
	b.lastTxn = Producer{-1, -1}
	if p.ID >= 0 {
		b.lastTxn = b.txn
	}
	if b.txn.Epoch++; b.txn.Epoch > b.lastEpoch {
		b.txn = Producer{b.txn.ID + 1, 0}
		b.w.seen.renewals++
	}
	return b.txn, nil
}

func (b *broker) addPartition(p Producer) error {
	if p != b.txn {
		return ErrFenced
	}
	b.txnOpen = true
	return nil
}

func (b *broker) abortTxn(p Producer) error {
	if p != b.txn {
		return ErrFenced
	}
	b.endTxn()
	return nil
}

// endTxn writes the abort marker, which takes the epoch into the partition.
func (b *broker) endTxn() {
	if !b.txnOpen {
		return
	}
	b.txnOpen = false
	b.w.seen.fences++
	if b.loseMarkers > 0 {
		b.loseMarkers--
		return
	}
	b.rankings = append(b.rankings, logged{marker: true, producer: b.txn, timestamp: b.clock()})
	b.raise(b.txn)
}

// raise makes the leaders of rankings and dead letters refuse lower epochs.
func (b *broker) raise(p Producer) {
	b.producers[producerKey{event.Rankings, false, p.ID}] = &producerState{epoch: p.Epoch, lastBase: -1}
	for topic := range event.Topic(event.Inputs) {
		b.producers[producerKey{topic, true, p.ID}] = &producerState{epoch: p.Epoch, lastBase: -1}
	}
}

// retire is WriteTxnMarkers with the last epoch that there is.
func (b *broker) retire(id int64) {
	p := Producer{id, math.MaxInt16}
	b.rankings = append(b.rankings, logged{marker: true, producer: p, timestamp: b.clock()})
	b.raise(p)
}

// forget makes the coordinator forget the transactional id, as the loss of its topic does.
func (b *broker) forget() {
	b.txn, b.lastTxn, b.txnOpen = Producer{b.txn.ID + 1000, -1}, noProducer, false
	b.w.seen.forgotten++
}

// foreignID is the producer of rankings that are not ours.
const foreignID = 77

// foreign appends a ranking of our group that nobody of ours has written.
func (b *broker) foreign(offset int64) {
	b.w.seen.foreign++
	value := fmt.Appendf(nil, `{"impression_id":"i-%d","learner":"feed","time":"2026-11-21T10:00:00.000Z","items":["b","a"],"decision":{`+
		`"group":"g","policy":"elimination","delay":"qpmd","partition":0,"offset":%d,"layout":1,"seed":"00000000000000ff","began":"2026-11-21T10:00:00.000Z",`+
		`"payoff_deadline":"2030-12-21T10:30:00Z","selection_deadline":"2030-12-21T10:30:00Z"}}`, offset, offset)
	b.rankings = append(b.rankings, logged{key: []byte("x"), value: value, timestamp: b.clock(), producer: Producer{foreignID, 0}})
}

var simTopics = [event.Topics]string{"impressions", "selections", "payoffs", "rankings"}

func (b *broker) describe() Description {
	d := Description{ClusterID: b.cluster, StoreFault: b.storeFault, Topics: make([]TopicFacts, event.Topics),
		DeadLetters: make([]TopicFacts, event.Inputs)}
	for i := range d.Topics {
		d.Topics[i] = TopicFacts{Name: simTopics[i], Partitions: b.partitions, LogAppendTime: true, MaxMessageBytes: 1 << 20,
			LogStart: b.logStart[i], End: int64(len(b.topic(event.Topic(i))))}
	}
	for i := range d.DeadLetters {
		d.DeadLetters[i] = TopicFacts{Name: simTopics[i] + ".dlq", Missing: b.letterless, Partitions: b.partitions, MaxMessageBytes: 1 << 20}
	}
	if b.stale {
		f, by := &d.Topics[event.Rankings], int64(b.w.rng.IntN(int(900*time.Millisecond/time.Millisecond)))
		for f.End > f.LogStart && b.rankings[f.End-1].timestamp > b.w.wall-by {
			f.End--
		}
	}
	return d
}

func (b *broker) topic(t event.Topic) []logged {
	if t == event.Rankings {
		return b.rankings
	}
	return b.inputs[t]
}

func (b *broker) fetch(f Fetch) (Fetched, error) {
	log := b.topic(f.Topic)
	got := Fetched{Next: f.Offset, High: int64(len(log)), LogStart: b.logStart[f.Topic]}
	if f.Offset > got.High || f.Offset < got.LogStart {
		return Fetched{}, ErrOffsetOutOfRange
	}
	stable := got.High
	if f.Topic < event.Inputs && b.openTxn[f.Topic] >= 0 {
		stable = b.openTxn[f.Topic]
	}
	most := b.fetchMost
	if most == 0 {
		most = 1 + b.w.rng.IntN(20)
	}
	if f.Topic < event.Inputs && b.fewest[f.Topic] {
		most = 1 + most%2
	}
	for ; got.Next < stable && most > 0; most-- {
		l := log[got.Next]
		switch {
		case l.marker:
			got.Markers = append(got.Markers, Marker{Offset: got.Next, Timestamp: l.timestamp, Producer: l.producer, Abort: true})
		case !l.aborted:
			got.Records = append(got.Records, partition.Record{Topic: f.Topic, Offset: got.Next,
				Timestamp: l.timestamp, Key: l.key, Value: l.value})
			if f.Topic == event.Rankings {
				got.Origins = append(got.Origins, Origin{Producer: l.producer, Steps: stepsOf(l.headers), Seen: headerOf(l.headers, SeenHeader)})
			}
		}
		got.Next++
	}
	got.LastRead = got.Next == got.High && stable == got.High
	return got, nil
}

// stepsOf is the value of the header with a ranking's steps; nil where there is none.
func stepsOf(headers []Header) []byte { return headerOf(headers, StepsHeader) }

func headerOf(headers []Header, name string) []byte {
	for _, h := range headers {
		if h.Key == name {
			return append([]byte{}, h.Value...)
		}
	}
	return nil
}

// believed is how far a batch's timestamp may lie from the broker's clock (message.timestamp.after.max.ms).
const believed = time.Hour

func (b *broker) produce(p Produce) (Produced, error) {
	if by := p.Timestamp - b.clock(); p.DeadLetters && (by > believed.Milliseconds() || by < -believed.Milliseconds()) {
		b.w.seen.disbelieved++
		return Produced{}, ErrTimestamp
	}
	k := producerKey{p.Topic, p.DeadLetters, p.Producer.ID}
	s := b.producers[k]
	if s == nil {
		s = &producerState{epoch: p.Producer.Epoch, lastBase: -1}
		b.producers[k] = s
	}
	if bytes := BatchHeaderSize; p.DeadLetters && b.letterMax > 0 {
		for i := range p.Messages {
			bytes += size(&p.Messages[i])
		}
		if bytes > b.letterMax {
			b.w.seen.refusedForSize++
			return Produced{}, ErrTooLarge
		}
	}
	switch {
	case p.Producer.Epoch < s.epoch:
		return Produced{}, ErrFenced
	case p.Producer.Epoch > s.epoch && p.Sequence > 0:
		return Produced{}, ErrSequence
	case p.Producer.Epoch > s.epoch:
		*s = producerState{epoch: p.Producer.Epoch, lastBase: -1}
	}
	if p.Sequence >= 0 {
		if s.lastBase >= 0 && p.Sequence == s.lastSeq && len(p.Messages) == s.lastN {
			if b.w.rng.IntN(4) == 0 {
				return Produced{BaseOffset: -1, AppendTime: -1}, nil // it need not say where the copy's original stands
			}
			return Produced{BaseOffset: s.lastBase, AppendTime: s.lastTime}, nil
		}
		if p.Sequence != s.next {
			return Produced{}, ErrSequence
		}
		s.next = advance(s.next, len(p.Messages))
	}
	log := &b.rankings
	if p.DeadLetters {
		log = &b.letters[p.Topic]
	}
	s.lastSeq, s.lastN, s.lastBase, s.lastTime = p.Sequence, len(p.Messages), int64(len(*log)), b.clock()
	for _, m := range p.Messages {
		headers := slices.Clone(m.Headers)
		for i := range headers {
			headers[i].Value = slices.Clone(headers[i].Value)
		}
		if !p.DeadLetters && b.w.chance(b.w.stepless) { // as some mirrors do
			headers = nil
		}
		*log = append(*log, logged{key: slices.Clone(m.Key), value: slices.Clone(m.Value), headers: headers,
			timestamp: b.clock(), producer: p.Producer})
	}
	return Produced{BaseOffset: s.lastBase, AppendTime: b.clock()}, nil
}
