package event

import "fmt"

// Reason is the reason to refuse a record. Reasons are values of a metric label and of a dead letter's header, so they are never renamed.
type Reason string

// Faults that the decoder finds in the record alone.
const (
	RecordTooLarge      Reason = "record_too_large"      // the value is longer than max_record_bytes
	MalformedJSON       Reason = "malformed_json"        // the value is not one JSON document in valid UTF-8, or is nested deeper than MaxDepth
	MalformedProtobuf   Reason = "malformed_protobuf"    // the value is not a Protobuf message, or a text of ours in it is not valid UTF-8
	MalformedAvro       Reason = "malformed_avro"        // the value does not fit the schema that its header names, or has no such header
	UnknownSchema       Reason = "unknown_schema"        // the schema registry has no schema of the id that the value's header names
	UnfitSchema         Reason = "unfit_schema"          // the schema that the value's header names is not one that our fields can be read by
	WrongType           Reason = "wrong_type"            // a field holds another JSON type than it should, or a number that does not fit
	DuplicateField      Reason = "duplicate_field"       // an object gives one of our fields twice
	MissingField        Reason = "missing_field"         // a ranking lacks a field that its update needs
	MissingImpressionID Reason = "missing_impression_id" // impression_id is absent, null or empty
	KeyMismatch         Reason = "key_mismatch"          // the record's key is not the bytes of its impression_id
	IDTooLong           Reason = "id_too_long"           // an impression id, item, event id or learner is longer than MaxIDBytes
	InvalidTime         Reason = "invalid_time"          // a time is not RFC 3339, or not within the years 0001 to 9999 of UTC
	NoCandidates        Reason = "no_candidates"         // candidates is absent, null or empty, or all are excluded
	TooManyCandidates   Reason = "too_many_candidates"   // there are more than max_candidates
	DuplicateItem       Reason = "duplicate_item"        // the same item stands twice among the candidates or the ranked items
	DuplicatePin        Reason = "duplicate_pin"         // two candidates are pinned to one place
	MissingItem         Reason = "missing_item"          // an item that is needed is absent, null or empty
	MissingPayoff       Reason = "missing_payoff"        // payoff is absent or null
	NotFinite           Reason = "not_finite"            // a utility or payoff exceeds a float64. JSON has no NaN, but 1e999 is valid JSON
	WrongFeatures       Reason = "wrong_features"        // features are not as many as the learner declares
)

// Faults that only the partition's state machine finds.
const (
	UnknownLearner      Reason = "unknown_learner"        // no learner of that name is configured, or none is named and there is no default
	LearnerGone         Reason = "learner_gone"           // the selection or payoff belongs to an impression whose learner is not configured any more
	PayoffOutOfRange    Reason = "payoff_out_of_range"    // the payoff lies outside its learner's payoff_range
	ItemNotInImpression Reason = "item_not_in_impression" // the item was not one of the impression's candidates
	ItemNotSelected     Reason = "item_not_selected"      // the payoff names another item than the one selected
	NoUtilities         Reason = "no_utilities"           // the learner needs the candidates' utilities, and the impression gives none
	// MissingFeatures: the learner declares features, and the impression gives none, or null in place of one.
	MissingFeatures  Reason = "missing_features"
	MissingPredicted Reason = "missing_predicted" // the learner needs another model's prediction for each candidate, and one lacks it
	RankingTooLarge  Reason = "ranking_too_large" // the impression's ranking would not fit into a record of the rankings topic
	TooManyEvents    Reason = "too_many_events"   // an impression has more payoffs with an event id than ids are kept for deduplication
	RefusedEarlier   Reason = "refused_earlier"   // an earlier owner of the partition went past this impression without ranking it
	Skipped          Reason = "skipped"           // the record cannot be read, and a person has had it passed over
)

// Reasons lists every reason, so that metrics can start all of them at 0.
func Reasons() []Reason {
	return []Reason{
		RecordTooLarge, MalformedJSON, MalformedProtobuf, MalformedAvro, UnknownSchema, UnfitSchema, WrongType, DuplicateField, MissingField, MissingImpressionID, KeyMismatch,
		IDTooLong, InvalidTime, NoCandidates, TooManyCandidates, DuplicateItem, DuplicatePin, MissingItem, MissingPayoff, NotFinite,
		WrongFeatures, MissingFeatures, MissingPredicted, UnknownLearner, LearnerGone, PayoffOutOfRange, ItemNotInImpression, ItemNotSelected, NoUtilities,
		RankingTooLarge, TooManyEvents, RefusedEarlier, Skipped,
	}
}

// Fault is a refusal: the record goes to the dead letters, and the partition continues.
type Fault struct {
	Reason Reason
	// Detail is printable, and at most a few hundred bytes.
	Detail string
	// Pointer is the position in the record, as a JSON Pointer (RFC 6901): "/candidates/3/item". It also names an absent field. Empty: the
	// whole record.
	Pointer string
}

// at prepends a field to the pointer.
func (f *Fault) at(field string) *Fault {
	f.Pointer = "/" + field + f.Pointer
	return f
}

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

// quote renders bytes of a record for a detail: escaped if not printable, and cut off after 64 characters.
func quote(b []byte) string {
	const most = 64
	if len(b) > most {
		return fmt.Sprintf("%q…", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
