package partition

import "github.com/ranker-worker/ranker-worker/stream/event"

// reader decodes records. Each lasts until the next one of its topic.
type reader struct {
	decoder    *event.Decoder
	formats    event.Formats
	most       int // bytes of a value
	impression event.Impression
	selection  event.Selection
	payoff     event.Payoff
}

func newReader(cfg *Config) reader {
	limits := event.Limits{MaxCandidates: cfg.MaxCandidates, MaxRecordBytes: cfg.MaxRecordBytes}
	r := reader{decoder: event.NewFormatsDecoder(limits, cfg.Formats), formats: cfg.Formats, most: cfg.MaxRecordBytes}
	if len(cfg.Experiments) > 0 { // predictions are covariates
		r.decoder.WithContext()
	}
	for i := range cfg.Learners {
		if cfg.Learners[i].Context != nil || len(cfg.Learners[i].Caps) > 0 {
			r.decoder.WithContext()
		}
	}
	return r
}

// read decodes a fetched record, and returns its fault.
func (r *reader) read(rec *Record) (f *event.Fault, err error) {
	if f = rec.Fault; f == nil {
		f, err = r.decode(rec.Topic, rec.Key, event.Content{Form: r.formats.Of(rec.Topic, rec.Value), Value: rec.Value, Plain: rec.Plain})
	}
	if f != nil && rec.Cut != nil && f.Reason == event.RecordTooLarge {
		f = faultf(f.Reason, "key and value have %d bytes, a value may have at most %d", rec.Cut.Size, r.most)
	}
	return f, err
}

func (r *reader) decode(t event.Topic, key []byte, c event.Content) (f *event.Fault, err error) {
	switch t {
	case event.Impressions:
		err = r.decoder.ImpressionIn(&r.impression, key, c)
	case event.Selections:
		err = r.decoder.SelectionIn(&r.selection, key, c)
	default:
		err = r.decoder.PayoffIn(&r.payoff, key, c)
	}
	if f, ok := err.(*event.Fault); ok {
		return f, nil
	}
	return nil, err
}

// timeOf returns the event time of the record decoded last of a topic, if it has one.
func (r *reader) timeOf(t event.Topic) (at event.Millis, has bool) {
	switch t {
	case event.Impressions:
		return r.impression.Time, r.impression.HasTime
	case event.Selections:
		return r.selection.Time, r.selection.HasTime
	}
	return r.payoff.Time, r.payoff.HasTime
}
