package redisstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/state"
)

// Fields of meta that belong to this package. Numbers are decimal, except the witnesses' hash.
const (
	fieldToken      = "token"
	fieldWriter     = "writer" // token of the last checkpoint's writer
	fieldGeneration = "generation"
	fieldSeq        = "seq"
	fieldCheckpoint = "checkpoint"
	fieldTorn       = "torn" // id of an unfinished checkpoint; empty or absent: none
	fieldLayout     = "layout"
	fieldCluster    = "cluster"
	fieldTopics     = "topics" // JSON array
	fieldPartitions = "partitions"
	fieldRankings   = "rankings"
	fieldProducerID = "producer_id"
	fieldEpoch      = "producer_epoch"
	fieldFormer     = "former_producers" // JSON array
	fieldOffset     = "offset."          // followed by the topic's role
	fieldWitness    = "witness."         // likewise: offset:timestamp:hash, the hash in hex
	roleRankings    = "rankings"
)

func topicRole(i int) string {
	names := [...]string{"impressions", "selections", "payoffs"}
	if i < len(names) {
		return names[i]
	}
	return "input" + strconv.Itoa(i)
}

func reserved(field string) bool {
	switch field {
	case fieldToken, fieldWriter, fieldGeneration, fieldSeq, fieldCheckpoint, fieldTorn, fieldLayout,
		fieldCluster, fieldTopics, fieldPartitions, fieldRankings, fieldProducerID, fieldEpoch, fieldFormer:
		return true
	}
	return strings.HasPrefix(field, fieldOffset) || strings.HasPrefix(field, fieldWitness)
}

// eachCutField calls set for each field of the cut. The scripts write token, torn and writer.
func eachCutField(m *state.Meta, set func(field, value string)) error {
	topics := m.TopicNames
	if topics == nil {
		topics = []string{}
	}
	names, err := json.Marshal(topics)
	if err != nil {
		return fmt.Errorf("encode the topics' names: %w", err)
	}
	set(fieldLayout, strconv.Itoa(m.Layout))
	set(fieldCluster, m.ClusterID)
	set(fieldTopics, string(names))
	set(fieldPartitions, strconv.Itoa(m.Partitions))
	for i := range m.Inputs {
		set(fieldOffset+topicRole(i), strconv.FormatInt(m.Inputs[i].Offset, 10))
		set(fieldWitness+topicRole(i), formatWitness(m.Inputs[i].Witness))
	}
	set(fieldRankings, strconv.FormatInt(m.Rankings, 10))
	set(fieldWitness+roleRankings, formatWitness(m.RankingsWitness))
	set(fieldProducerID, strconv.FormatInt(m.ProducerID, 10))
	set(fieldEpoch, strconv.Itoa(int(m.ProducerEpoch)))
	former := []byte("[")
	for i, id := range m.FormerProducers {
		if i > 0 {
			former = append(former, ',')
		}
		former = strconv.AppendInt(former, id, 10)
	}
	set(fieldFormer, string(append(former, ']')))
	return nil
}

func formatWitness(w state.Witness) string {
	b := make([]byte, 0, 64)
	b = strconv.AppendInt(b, w.Offset, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, w.Timestamp, 10)
	b = append(b, ':')
	return string(strconv.AppendUint(b, w.Hash, 16))
}

func parseWitness(s string) (state.Witness, error) {
	var w state.Witness
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return w, fmt.Errorf("%q is not offset:timestamp:hash", s)
	}
	var errs [3]error
	w.Offset, errs[0] = strconv.ParseInt(parts[0], 10, 64)
	w.Timestamp, errs[1] = strconv.ParseInt(parts[1], 10, 64)
	w.Hash, errs[2] = strconv.ParseUint(parts[2], 16, 64)
	return w, errors.Join(errs[:]...)
}

type metaReader struct {
	fields map[string]string
	faults []error
}

func (r *metaReader) text(field string) string {
	v, ok := r.fields[field]
	if !ok {
		r.faults = append(r.faults, fmt.Errorf("field %q of meta is missing", field))
	}
	return v
}

func (r *metaReader) int(field string, bits int) int64 {
	n, err := strconv.ParseInt(r.text(field), 10, bits)
	if err != nil {
		r.faults = append(r.faults, fmt.Errorf("field %q of meta: %w", field, err))
	}
	return n
}

func (r *metaReader) witness(field string) state.Witness {
	w, err := parseWitness(r.text(field))
	if err != nil {
		r.faults = append(r.faults, fmt.Errorf("field %q of meta: %w", field, err))
	}
	return w
}

// parseMeta reads the fields of eachCutField, and those that the scripts write.
func parseMeta(fields map[string]string) (state.Meta, error) {
	r := metaReader{fields: fields}
	m := state.Meta{
		Fence:           state.Fence{Token: r.text(fieldToken), Seq: r.int(fieldSeq, 64)},
		Generation:      r.int(fieldGeneration, 64),
		CheckpointID:    r.text(fieldCheckpoint),
		Layout:          int(r.int(fieldLayout, 32)),
		ClusterID:       r.text(fieldCluster),
		Partitions:      int(r.int(fieldPartitions, 32)),
		Rankings:        r.int(fieldRankings, 64),
		RankingsWitness: r.witness(fieldWitness + roleRankings),
		ProducerID:      r.int(fieldProducerID, 64),
		ProducerEpoch:   int16(r.int(fieldEpoch, 16)),
	}
	if err := json.Unmarshal([]byte(r.text(fieldTopics)), &m.TopicNames); err != nil {
		r.faults = append(r.faults, fmt.Errorf("field %q of meta: %w", fieldTopics, err))
	}
	if err := json.Unmarshal([]byte(r.text(fieldFormer)), &m.FormerProducers); err != nil {
		r.faults = append(r.faults, fmt.Errorf("field %q of meta: %w", fieldFormer, err))
	}
	if len(m.FormerProducers) == 0 {
		m.FormerProducers = nil
	}
	for i := 0; ; i++ {
		if _, ok := fields[fieldOffset+topicRole(i)]; !ok {
			break
		}
		m.Inputs = append(m.Inputs, state.Position{
			Offset: r.int(fieldOffset+topicRole(i), 64), Witness: r.witness(fieldWitness + topicRole(i)),
		})
	}
	return m, errors.Join(r.faults...)
}
