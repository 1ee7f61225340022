package partition

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// An order record stands in the rankings topic between two rankings, when the steps between them exceed a bound. Its key names the group,
// the partition and the record's number; its value is null; its headers are a ranking's. Steps restart behind it. So the log holds the
// order of inputs however long no impression comes, and the stored steps stay small.

// defaultOrderBytes bounds the bytes of steps, or of observations, that wait for the next ranking. An order record takes more.
const defaultOrderBytes = 4 << 10

// appendOrderKey appends the key of an order record. Numbers rise by 1 from 1.
func appendOrderKey(dst []byte, group string, partition int32, number int64) []byte {
	dst = append(append(dst, group...), '-')
	dst = append(strconv.AppendInt(dst, int64(partition), 10), '/')
	return strconv.AppendInt(dst, number, 10)
}

// OrderNumber returns the number of an order record of this group and partition; ok is false for any other record.
func OrderNumber(rec *Record, group string, partition int32) (number int64, ok bool) {
	if rec.Value != nil {
		return 0, false
	}
	at := bytes.LastIndexByte(rec.Key, '/') + 1
	number, err := strconv.ParseInt(string(rec.Key[at:]), 10, 64)
	if err != nil || number < 1 {
		return 0, false
	}
	var expected [64]byte
	return number, bytes.Equal(rec.Key, appendOrderKey(expected[:0], group, partition, number))
}

// Log holds the inputs of a replay besides the topics, as far as no record carries them yet: the order of inputs, and observations.
type Log struct {
	cfg   *Config
	time  *eventTime
	steps inputOrder
	seen  observationLog
}

// OwesOrder reports whether steps or observations exceed their bound, so that RecordOrder must be called.
func (g *Log) OwesOrder() bool {
	most := min(cmp.Or(g.cfg.OrderBytes, defaultOrderBytes), g.cfg.MaxRankingBytes/8)
	return len(g.steps.tokens) > most || len(g.seen.Tokens) > most
}

// RecordOrder appends an order record to the output. A replay must not call it: its log has the record already.
func (g *Log) RecordOrder(out *Output) {
	number := g.steps.orders + 1
	start := len(out.buf)
	out.buf = appendOrderKey(out.buf, g.cfg.Group, g.cfg.Partition, number)
	key := out.buf[start:len(out.buf):len(out.buf)]
	steps := g.stepsOf(out)
	if len(key)+len(steps)+len(g.seen.Tokens) > g.cfg.MaxRankingBytes-2*stepsHeaderBytes {
		g.seen.lose()
	}
	out.Rankings = append(out.Rankings, Message{Key: key, Steps: steps, Seen: g.seenOf(out)})
	g.steps.recorded(number)
}

// TakeOrder notes that a replay has reached the order record with this number.
func (g *Log) TakeOrder(number int64) {
	g.steps.at(g.time.watermark)
	g.steps.recorded(number)
}

// Orders returns the number of the partition's last order record; 0: there is none.
func (g *Log) Orders() int64 { return g.steps.orders }

// Ahead notes, behind an adopted ranking or an order record, how many records of each topic this state had stepped that the log shows
// later. A state of another history than the log's has some, as with two stores; its next owner must not step as many again. Reached is the
// log's watermark there, which the state's may exceed.
func (g *Log) Ahead(stepped [event.Inputs]int64, reached event.Millis) {
	g.steps.ahead(stepped, reached)
}

func (g *Log) stepsOf(out *Output) []byte {
	g.steps.at(g.time.watermark)
	start := len(out.buf)
	out.buf = g.steps.appendHeader(out.buf)
	return out.buf[start:len(out.buf):len(out.buf)]
}

func (g *Log) seenOf(out *Output) []byte {
	start := len(out.buf)
	out.buf = g.seen.take(out.buf)
	return out.buf[start:len(out.buf):len(out.buf)]
}

// ranked appends a ranking with its headers to the output, and before it an order record if it would be too large with them.
func (g *Log) ranked(key, value []byte, out *Output) {
	g.steps.at(g.time.watermark)
	if len(key)+len(value)+len(g.steps.tokens)+len(g.seen.Tokens) > g.cfg.MaxRankingBytes-2*stepsHeaderBytes {
		g.RecordOrder(out)
	}
	out.Rankings = append(out.Rankings, Message{Key: out.keep(key), Value: value, Steps: g.stepsOf(out), Seen: g.seenOf(out)})
}

// stepped adds a record to the order of inputs.
func (g *Log) stepped(rec *Record, s *stepping) {
	g.steps.at(g.time.watermark)
	g.seen.stepped(g.time.watermark)
	if s.ranked {
		g.steps.ranked(rec)
		g.seen.decided()
		return
	}
	if s.timed {
		g.steps.timed(s.effective)
	}
	if s.crowded {
		g.steps.crowded()
	}
	g.steps.took(rec)
}

// Begin notes the offsets from which an owner continues by its own choice. If the order of earlier steps is not known, it drops them.
func (g *Log) Begin(offsets [event.Inputs]int64, known bool) {
	if !known {
		g.steps.restart()
	}
	g.steps.next = offsets
	g.steps.at(g.time.watermark)
	g.steps.read()
}

// Unranked returns the number of records by topic that a loaded state has stepped since its last ranking or order record. If these steps
// state their beginning, it is returned, too. It fails with ErrSteps.
func (g *Log) Unranked() (stepped [event.Inputs]int64, begin *InputStep, err error) {
	_, steps, err := ParseSteps(nil, g.steps.appendHeader(nil))
	for i := range steps {
		switch s := &steps[i]; {
		case s.Kind == StepTake:
			stepped[s.Topic] += s.N
		case s.Kind == StepRead && i == 0:
			begin = s
		}
	}
	return stepped, begin, err
}

// Gaps returns how often this machine had to leave observations out of headers. It is not part of the state.
func (g *Log) Gaps() int64 { return g.seen.gaps }

// noteActed records an observation that event time was acted upon between two records.
func (g *Log) noteActed(acted bool) {
	if acted {
		g.seen.acted(g.time.watermark)
	}
}

// noteDue records an observation that an impression ended because its deadline was past.
func (g *Log) noteDue(id state.ID, s *stepping) {
	if s.due {
		g.seen.visit(id, s.dueAt)
	}
}
