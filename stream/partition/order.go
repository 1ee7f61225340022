package partition

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// An order record stands in the rankings topic between two rankings, where so much was stepped since the first that the second should not
// carry it. Its key names the group, the partition and the record's number, its value is null, and its headers are a ranking's: the steps,
// and what else was seen. The steps begin again behind it as behind a ranking. So the order of inputs is in the log however long no
// impression comes, and what is stored of it stays small.

// tellAt is how many bytes of steps, or of what else was seen, are kept for the next ranking. An order record takes more.
const tellAt = 4 << 10

// AppendOrderKey appends the key of a partition's order record of that number; numbers begin with 1 and rise by 1.
func AppendOrderKey(dst []byte, group string, partition int32, number int64) []byte {
	dst = append(append(dst, group...), '-')
	dst = append(strconv.AppendInt(dst, int64(partition), 10), '/')
	return strconv.AppendInt(dst, number, 10)
}

// OrderNumber is the number of an order record of this group and partition; ok is false for any other record.
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
	return number, bytes.Equal(rec.Key, AppendOrderKey(expected[:0], group, partition, number))
}

// Owes tells whether so much was stepped, or seen, that Tell is to be called.
func (m *Machine) Owes() bool {
	most := min(cmp.Or(m.cfg.OrderBytes, tellAt), m.cfg.MaxRankingBytes/8)
	return len(m.steps.tokens) > most || len(m.seen.tokens) > most
}

// Tell appends an order record to the output. It must not be called in a replay: the log holds the order of those steps already.
func (m *Machine) Tell(out *Output) {
	number := m.steps.orders + 1
	start := len(out.buf)
	out.buf = AppendOrderKey(out.buf, m.cfg.Group, m.cfg.Partition, number)
	key := out.buf[start:len(out.buf):len(out.buf)]
	steps := m.stepsOf(out)
	if len(key)+len(steps)+len(m.seen.tokens) > m.cfg.MaxRankingBytes-2*stepsHeaderBytes {
		m.seen.lose()
	}
	out.Rankings = append(out.Rankings, Message{Key: key, Steps: steps, Seen: m.seenOf(out)})
	m.steps.told(number)
}

// TakeOrder takes in that the log holds an order record of that number, up to which a replay has come.
func (m *Machine) TakeOrder(number int64) {
	m.steps.at(m.time.watermark)
	m.steps.told(number)
}

// Orders is the number of the partition's last order record; 0: there is none.
func (m *Machine) Orders() int64 { return m.steps.orders }

// Ahead notes behind an adopted ranking, or an order record, that so many records of each topic were stepped which the log has further on. A
// state of another history than the log's has them, as with two stores; its next owner must not step as many again.
func (m *Machine) Ahead(stepped [event.Inputs]int64) { m.steps.ahead(stepped) }

// told begins the steps again behind an order record.
func (s *inputOrder) told(number int64) {
	s.orders = number
	s.restart()
}

// restart begins the steps again behind a record of the log that carries those up to here.
func (s *inputOrder) restart() {
	s.from, s.tokens, s.run, s.changed = s.watermark, s.tokens[:0], -1, true
}

// stepsOf are the steps since the last record that carried them, for the header of the next.
func (m *Machine) stepsOf(out *Output) []byte {
	m.steps.at(m.time.watermark)
	start := len(out.buf)
	out.buf = m.steps.appendHeader(out.buf)
	return out.buf[start:len(out.buf):len(out.buf)]
}

// seenOf is what else was seen since then, for a header.
func (m *Machine) seenOf(out *Output) []byte {
	start := len(out.buf)
	out.buf = m.seen.take(out.buf)
	return out.buf[start:len(out.buf):len(out.buf)]
}

// makeRoomFor appends an order record where the headers of a ranking, whose key and value have so many bytes, would be too large for it.
func (m *Machine) makeRoomFor(size int, out *Output) {
	m.steps.at(m.time.watermark)
	if size+len(m.steps.tokens)+len(m.seen.tokens) > m.cfg.MaxRankingBytes-2*stepsHeaderBytes {
		m.Tell(out)
	}
}

// loadOrders loads the stored number of the last order record.
func (s *inputOrder) loadOrders(value []byte) (err error) {
	s.orders, err = strconv.ParseInt(string(value), 10, 64)
	if err == nil && s.orders < 0 {
		err = strconv.ErrRange
	}
	return err
}
