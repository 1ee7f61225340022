package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// mostRecords bounds one batch, and mostFaults the faults reported.
const (
	mostRecords = 1000
	mostFaults  = 100
)

func (s *Service) selections(r *http.Request) answer {
	if !s.cfg.Kafka.Topics.HasSelections() {
		return answer{problem: noSuchPath.problem("")}
	}
	return s.records(r, event.Selections, func(decoder *event.Decoder, value []byte) (id []byte, f *event.Fault) {
		var x event.Selection
		if err := decoder.Selection(&x, nil, value); err != nil {
			return nil, faultIn(err)
		}
		return x.ID, nil
	})
}

func (s *Service) payoffs(r *http.Request) answer {
	return s.records(r, event.Payoffs, func(decoder *event.Decoder, value []byte) (id []byte, f *event.Fault) {
		var p event.Payoff
		if err := decoder.Payoff(&p, nil, value); err != nil {
			return nil, faultIn(err)
		}
		return p.ID, partition.PayoffRefusal(&p, s.cfg.Kafka.Topics.HasSelections())
	})
}

// records writes one record or a list. If one is faulty, none is written.
func (s *Service) records(r *http.Request, topic event.Topic, read func(*event.Decoder, []byte) ([]byte, *event.Fault)) answer {
	return s.withBody(r, func(body []byte) answer {
		values, single, p := split(body)
		if p != nil {
			return answer{problem: p}
		}
		decoder := s.decoders.Get().(*event.Decoder)
		defer s.decoders.Put(decoder)
		var records []*record
		var faults []problemError
		trace := traceOf(r)
		large := false
		for i, value := range values {
			prefix := ""
			if !single {
				prefix = "/" + strconv.Itoa(i)
			}
			id, f := read(decoder, value)
			if f != nil {
				large = large || f.Reason == event.RecordTooLarge
				faults = append(faults, faultOf(f, prefix))
				continue
			}
			records = append(records, &record{key: bytes.Clone(id), value: value, headers: trace})
		}
		if len(faults) > 0 {
			return refusedAll(faults, large)
		}
		err := s.writer.write(r.Context(), topic, s.now(), records)
		switch {
		case err == nil:
			return answer{status: http.StatusAccepted, body: fmt.Appendf(nil, "{\"written\":%d}\n", len(records))}
		case tooLargeForTopic(err):
			return answer{problem: tooLarge.problem(err.Error())}
		case errors.Is(err, errQueueFull):
			return answer{problem: busy.problem("")}
		}
		return answer{problem: notWritten.problem(err.Error())}
	})
}

// bare trims a JSON document: a worker recognises JSON by its first byte.
func bare(document []byte) []byte { return bytes.Trim(document, " \t\r\n") }

// split separates a list of records; any other value is a single one.
func split(body []byte) (values [][]byte, single bool, p *problem) {
	if body = bare(body); len(body) == 0 || body[0] != '[' {
		return [][]byte{body}, true, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	_, err := decoder.Token() // [
	for err == nil && decoder.More() {
		if len(values) == mostRecords { // the rest is not read: decoded values take many times its bytes
			return nil, false, tooLarge.problem(fmt.Sprintf("more than %d records", mostRecords))
		}
		var raw json.RawMessage
		err = decoder.Decode(&raw)
		values = append(values, bare(raw))
	}
	if err == nil {
		_, err = decoder.Token() // ]
	}
	switch {
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	case err == nil && decoder.InputOffset() < int64(len(body)):
		err = errors.New("something stands behind the list")
	}
	if err != nil {
		return nil, false, faulty(problemError{Reason: event.MalformedJSON, Detail: err.Error(), Pointer: "#"})
	}
	return values, false, nil
}

func refused(f *event.Fault, prefix string) answer {
	return refusedAll([]problemError{faultOf(f, prefix)}, f.Reason == event.RecordTooLarge)
}

func refusedAll(faults []problemError, large bool) answer {
	if large {
		return answer{problem: tooLarge.problem(faults[0].Detail)}
	}
	return answer{problem: faulty(faults[:min(len(faults), mostFaults)]...)}
}

// faultIn returns the decoder's fault; it has no other errors.
func faultIn(err error) *event.Fault {
	var f *event.Fault
	if !errors.As(err, &f) {
		return &event.Fault{Reason: event.MalformedJSON, Detail: err.Error()}
	}
	return f
}
