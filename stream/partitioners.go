package stream

import (
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// partitioners are those of Kafka's clients, which all hash the key.
var partitioners = [...]struct {
	name string
	kafka.Balancer
}{
	{"murmur2", kafka.Murmur2Balancer{}}, // Java, franz-go, kafka-python, KafkaJS
	{"crc32", kafka.CRC32Balancer{}},     // librdkafka, and so confluent-kafka of Python, Go, .NET and Node
	{"fnv1a", &kafka.Hash{}},             // Sarama, kafka-go's Hash
}

// HowToPlace says how each client uses murmur2.
const HowToPlace = "librdkafka (confluent-kafka): partitioner=murmur2_random; kafka-go: Balancer: kafka.Murmur2Balancer{}; " +
	"Sarama: a HashPartitioner with murmur2; Java, franz-go, kafka-python, KafkaJS: their default"

// noneKnown stands for any other partitioner, or several in one topic.
const noneKnown = "another, or several"

const (
	enoughPlaced = 20               // records, to identify a partitioner
	wellAfter    = 10 * time.Minute // without a sign of difference, the difference counts as over
)

// tally counts a topic's records, and those that each partitioner would place where they are.
type tally struct {
	records int
	fits    [len(partitioners)]int
}

// partitioning identifies the partitioners of the input topics' producers. If they differ, records of one impression go to different partitions.
type partitioning struct {
	log   *slog.Logger
	names [event.Topics]string // of input topics; empty for others

	mu      sync.Mutex
	numbers []int
	tallies [event.Inputs]tally
	by      [event.Inputs]string // the latest finding; empty: none yet
	differ  bool
	agreed  string // the common partitioner, as last logged
	bad     time.Duration
}

func newPartitioning(log *slog.Logger, names [event.Topics]string) *partitioning {
	return &partitioning{log: log, names: names, agreed: partitioners[0].name}
}

// note counts records of a partition. With one partition there is nothing to find.
func (p *partitioning) note(topic event.Topic, number int32, partitions int, records []partition.Record) {
	if partitions < 2 || topic >= event.Inputs || len(records) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.numbers) != partitions {
		p.numbers = make([]int, partitions)
		for i := range p.numbers {
			p.numbers[i] = i
		}
		p.tallies = [event.Inputs]tally{}
	}
	p.tallies[topic].note(number, p.numbers, records)
}

// note counts records of a partition of a topic with these partitions.
func (t *tally) note(number int32, numbers []int, records []partition.Record) {
	for i := range records {
		key := records[i].Key
		if len(key) == 0 || records[i].Cut != nil { // a dead letter, in any partition
			continue
		}
		t.records++
		for k := range partitioners {
			if partitioners[k].Balance(kafka.Message{Key: key}, numbers...) == int(number) {
				t.fits[k]++
			}
		}
	}
}

// Placed identifies the partitioner of one topic's records, for readers beside a worker.
type Placed struct {
	numbers []int
	tally   tally
}

func NewPlaced(partitions int) *Placed {
	p := &Placed{numbers: make([]int, partitions)}
	for i := range p.numbers {
		p.numbers[i] = i
	}
	return p
}

func (p *Placed) Note(number int32, records []partition.Record) {
	p.tally.note(number, p.numbers, records)
}

// By returns the partitioner's name; known is false with one partition, or too few records with a key.
func (p *Placed) By() (name string, known bool) {
	if len(p.numbers) < 2 || p.tally.records < enoughPlaced {
		return "", false
	}
	return p.tally.found(), true
}

// found returns the partitioner that explains all but a twentieth of the records.
func (t *tally) found() string {
	for k := range partitioners {
		if 20*t.fits[k] >= 19*t.records {
			return partitioners[k].name
		}
	}
	return noneKnown
}

// judge logs changes, and reports whether partitioners differ.
func (p *partitioning) judge(now time.Duration) (differ bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]bool{}
	var by []any
	for topic := range p.tallies {
		if t := &p.tallies[topic]; t.records >= enoughPlaced {
			p.by[topic] = t.found()
			*t = tally{}
		}
		if p.by[topic] != "" {
			found[p.by[topic]] = true
			by = append(by, slog.String(p.names[topic], p.by[topic]))
		}
	}
	switch {
	case len(found) > 1:
		p.bad = now
		if !p.differ {
			p.differ = true
			p.log.Warn("producers place keys by different partitioners: records of one impression part, and wait in vain",
				slog.Group("by", by...), "set", HowToPlace)
		}
	case p.differ && now-p.bad >= wellAfter:
		p.differ = false
		p.log.Info("producers place keys by one partitioner again", slog.Group("by", by...))
	case len(found) == 1 && len(by) > 1 && !p.differ && !found[p.agreed]:
		for name := range found {
			p.agreed = name
		}
		p.log.Info("all producers place keys by this partitioner: they agree, which will do; state reshard needs murmur2",
			"partitioner", p.agreed)
	}
	return p.differ
}
