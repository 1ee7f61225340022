package event

// Payoff is the payoff (reward) of a selection.
type Payoff struct {
	ID      []byte
	Payoff  float64 // raw units
	Time    Millis
	HasTime bool
	Item    []byte // empty: not named
	EventID []byte // empty: none
}

var payoffs = tableOf([]field[Payoff]{
	{name: "impression_id", need: MissingImpressionID, text: func(r *Payoff) *[]byte { return &r.ID }},
	{name: "payoff", need: MissingPayoff, number: func(r *Payoff) *float64 { return &r.Payoff }},
	{name: "time", time: func(r *Payoff) *Millis { return &r.Time }, given: func(r *Payoff) *bool { return &r.HasTime }},
	{name: "item", text: func(r *Payoff) *[]byte { return &r.Item }},
	{name: "event_id", text: func(r *Payoff) *[]byte { return &r.EventID }},
})

// Payoff reads a payoff into dst. Without a selections topic, the caller must check that it names its item.
func (d *Decoder) Payoff(dst *Payoff, key, value []byte) error {
	return d.PayoffIn(dst, key, Content{Form: d.formats.Of(Payoffs, value), Value: value})
}

// PayoffIn reads a payoff of known form.
func (d *Decoder) PayoffIn(dst *Payoff, key []byte, c Content) error {
	return payoffs.decode(d, Payoffs, dst, key, c)
}

// AppendPayoff appends a payoff in JSON.
func AppendPayoff(dst []byte, r *Payoff) []byte {
	return append(payoffs.appendJSON(dst, r, 0, len(payoffs.rows)), '}')
}

// AppendProtobufPayoff appends a payoff in Protobuf.
func AppendProtobufPayoff(dst []byte, r *Payoff) []byte {
	return payoffs.appendProtobuf(dst, r, 0, len(payoffs.rows))
}
