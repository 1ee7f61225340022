package event

import "fmt"

// Reason says in one word why a record is refused. Reasons are a small fixed vocabulary: they are the values of a
// metric label and of a dead letter's header, so they are added to but not renamed.
type Reason string

// Faults that the decoder finds in the record alone.
const (
	// RecordTooLarge: the value is longer than max_record_bytes.
	RecordTooLarge Reason = "record_too_large"
	// MalformedJSON: the value is not one JSON document in valid UTF-8, or is nested deeper than MaxDepth.
	MalformedJSON Reason = "malformed_json"
	// MalformedProtobuf: the value is not a Protobuf message, or a text of ours in it is not valid UTF-8.
	MalformedProtobuf Reason = "malformed_protobuf"
	// MalformedAvro: the value does not fit the schema that its header names, or has no such header.
	MalformedAvro Reason = "malformed_avro"
	// UnknownSchema: the schema registry has no schema of the id that the value's header names.
	UnknownSchema Reason = "unknown_schema"
	// UnfitSchema: the schema that the value's header names is not one that our fields can be read by.
	UnfitSchema Reason = "unfit_schema"
	// WrongType: a field holds another JSON type than it should, or a number that does not fit.
	WrongType Reason = "wrong_type"
	// DuplicateField: an object gives one of our fields twice.
	DuplicateField Reason = "duplicate_field"
	// MissingField: a ranking lacks a field that its update needs.
	MissingField Reason = "missing_field"
	// MissingImpressionID: impression_id is absent, null or empty.
	MissingImpressionID Reason = "missing_impression_id"
	// KeyMismatch: the record's key is not the bytes of its impression_id.
	KeyMismatch Reason = "key_mismatch"
	// IDTooLong: an impression id, item, event id or learner is longer than MaxIDBytes.
	IDTooLong Reason = "id_too_long"
	// InvalidTime: a time is not RFC 3339, or not within the years 0001 to 9999 of UTC.
	InvalidTime Reason = "invalid_time"
	// NoCandidates: candidates is absent, null or empty.
	NoCandidates Reason = "no_candidates"
	// TooManyCandidates: there are more than max_candidates.
	TooManyCandidates Reason = "too_many_candidates"
	// DuplicateItem: the same item stands twice among the candidates or the ranked items.
	DuplicateItem Reason = "duplicate_item"
	// MissingItem: an item that is needed is absent, null or empty.
	MissingItem Reason = "missing_item"
	// MissingPayoff: payoff is absent or null.
	MissingPayoff Reason = "missing_payoff"
	// NotFinite: a utility or payoff exceeds a float64. JSON has no NaN, but 1e999 is valid JSON.
	NotFinite Reason = "not_finite"
	// WrongFeatures: features are not as many as the learner declares.
	WrongFeatures Reason = "wrong_features"
)

// Faults that only the partition's state machine finds.
const (
	// UnknownLearner: no learner of that name is configured, or none is named and there is no default.
	UnknownLearner Reason = "unknown_learner"
	// LearnerGone: the selection or payoff belongs to an impression whose learner is not configured any more.
	LearnerGone Reason = "learner_gone"
	// PayoffOutOfRange: the payoff lies outside its learner's payoff_range.
	PayoffOutOfRange Reason = "payoff_out_of_range"
	// ItemNotInImpression: the item was not one of the impression's candidates.
	ItemNotInImpression Reason = "item_not_in_impression"
	// ItemNotSelected: the payoff names another item than the one selected.
	ItemNotSelected Reason = "item_not_selected"
	// NoUtilities: the learner needs the candidates' utilities, and the impression gives none.
	NoUtilities Reason = "no_utilities"
	// MissingFeatures: the learner declares features, and the impression gives none, or null in place of one.
	MissingFeatures Reason = "missing_features"
	// MissingPredicted: the learner needs another model's prediction for each candidate, and one lacks it.
	MissingPredicted Reason = "missing_predicted"
	// RankingTooLarge: the impression's ranking would not fit into a record of the rankings topic.
	RankingTooLarge Reason = "ranking_too_large"
	// TooManyEvents: an impression has more payoffs with an event id than ids are kept for deduplication.
	TooManyEvents Reason = "too_many_events"
	// RefusedEarlier: an earlier owner of the partition went past this impression without ranking it.
	RefusedEarlier Reason = "refused_earlier"
	// Skipped: the record cannot be read, and a person has had it passed over.
	Skipped Reason = "skipped"
)

// Reasons lists every reason, so that metrics can start all of them at 0.
func Reasons() []Reason {
	return []Reason{
		RecordTooLarge, MalformedJSON, MalformedProtobuf, MalformedAvro, UnknownSchema, UnfitSchema, WrongType, DuplicateField, MissingField, MissingImpressionID, KeyMismatch,
		IDTooLong, InvalidTime, NoCandidates, TooManyCandidates, DuplicateItem, MissingItem, MissingPayoff, NotFinite,
		WrongFeatures, MissingFeatures, MissingPredicted, UnknownLearner, LearnerGone, PayoffOutOfRange, ItemNotInImpression, ItemNotSelected, NoUtilities,
		RankingTooLarge, TooManyEvents, RefusedEarlier, Skipped,
	}
}

// Fault is why a record is refused: it goes to the dead letters, and the partition goes on.
type Fault struct {
	Reason Reason
	// Detail is for people: printable, and at most a few hundred bytes whatever the record held.
	Detail string
	// Pointer is where in the record, as a JSON Pointer (RFC 6901): "/candidates/3/item". Of an object's field that is absent it
	// names the field; empty: the record as a whole.
	Pointer string
}

// at says in which field of an object a fault is.
func (f *Fault) at(field string) *Fault {
	f.Pointer = "/" + field + f.Pointer
	return f
}

// Error gives the reason and the detail.
func (f *Fault) Error() string {
	if f.Detail == "" {
		return string(f.Reason)
	}
	return string(f.Reason) + ": " + f.Detail
}

// faultf makes a fault. Its arguments must be short; quote shortens parts of the record.
func faultf(r Reason, format string, args ...any) *Fault {
	return &Fault{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// quote renders bytes of a record for a detail: escaped where not printable, and cut off after 64 characters.
func quote(b []byte) string {
	const most = 64
	if len(b) > most {
		return fmt.Sprintf("%q…", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
