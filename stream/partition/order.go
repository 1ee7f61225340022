package partition

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// An order record stands in the rankings topic between two rankings, when the steps between them exceed a bound. Its key names the group,
// the partition and the record's number; its value is null; its headers are a ranking's. Steps restart behind it. So the log holds the
// order of inputs however long no impression comes, and the stored steps stay small.

// defaultOrderBytes bounds the bytes of steps, or of observations, that wait for the next ranking. An order record takes more.
const defaultOrderBytes = 4 << 10

// AppendOrderKey appends the key of an order record. Numbers rise by 1 from 1.
func AppendOrderKey(dst []byte, group string, partition int32, number int64) []byte {
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
	return number, bytes.Equal(rec.Key, AppendOrderKey(expected[:0], group, partition, number))
}

// OwesOrder reports whether steps or observations exceed their bound, so that RecordOrder must be called.
func (m *Machine) OwesOrder() bool {
	most := min(cmp.Or(m.cfg.OrderBytes, defaultOrderBytes), m.cfg.MaxRankingBytes/8)
	return len(m.steps.tokens) > most || len(m.seen.tokens) > most
}

// RecordOrder appends an order record to the output. A replay must not call it: its log has the record already.
func (m *Machine) RecordOrder(out *Output) {
	number := m.steps.orders + 1
	start := len(out.buf)
	out.buf = AppendOrderKey(out.buf, m.cfg.Group, m.cfg.Partition, number)
	key := out.buf[start:len(out.buf):len(out.buf)]
	steps := m.stepsOf(out)
	if len(key)+len(steps)+len(m.seen.tokens) > m.cfg.MaxRankingBytes-2*stepsHeaderBytes {
		m.seen.lose()
	}
	out.Rankings = append(out.Rankings, Message{Key: key, Steps: steps, Seen: m.seenOf(out)})
	m.steps.recorded(number)
}

// TakeOrder notes that a replay has reached the order record with this number.
func (m *Machine) TakeOrder(number int64) {
	m.steps.at(m.time.watermark)
	m.steps.recorded(number)
}

// Orders returns the number of the partition's last order record; 0: there is none.
func (m *Machine) Orders() int64 { return m.steps.orders }

// Ahead notes, behind an adopted ranking or an order record, how many records of each topic this state had stepped that the log shows
// later. A state of another history than the log's has some, as with two stores; its next owner must not step as many again.
func (m *Machine) Ahead(stepped [event.Inputs]int64) { m.steps.ahead(stepped) }

func (s *inputOrder) recorded(number int64) {
	s.orders = number
	s.restart()
}

// restart begins the steps behind a record that carries those so far.
func (s *inputOrder) restart() {
	s.from, s.tokens, s.run, s.changed = s.watermark, s.tokens[:0], -1, true
}

func (m *Machine) stepsOf(out *Output) []byte {
	m.steps.at(m.time.watermark)
	start := len(out.buf)
	out.buf = m.steps.appendHeader(out.buf)
	return out.buf[start:len(out.buf):len(out.buf)]
}

func (m *Machine) seenOf(out *Output) []byte {
	start := len(out.buf)
	out.buf = m.seen.take(out.buf)
	return out.buf[start:len(out.buf):len(out.buf)]
}

// makeRoomFor appends an order record if a ranking, with size bytes of key and value, would be too large with its headers.
func (m *Machine) makeRoomFor(size int, out *Output) {
	m.steps.at(m.time.watermark)
	if size+len(m.steps.tokens)+len(m.seen.tokens) > m.cfg.MaxRankingBytes-2*stepsHeaderBytes {
		m.RecordOrder(out)
	}
}

func (s *inputOrder) loadOrders(value []byte) (err error) {
	s.orders, err = strconv.ParseInt(string(value), 10, 64)
	if err == nil && s.orders < 0 {
		err = strconv.ErrRange
	}
	return err
}
