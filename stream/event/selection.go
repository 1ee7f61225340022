package event

// Selection is the user's selection of an item.
type Selection struct {
	ID         []byte
	Item       []byte
	Time       Millis
	HasTime    bool
	Utility    float64 // the user's own estimate
	HasUtility bool
	// ByUtility: the candidates were shown in the order of utility, and not as ranked.
	ByUtility bool
}

// ShownByUtility is the only value of a selection's field "shown".
const ShownByUtility = "utility"

var selections = tableOf([]field[Selection]{
	{name: "impression_id", need: MissingImpressionID, text: func(r *Selection) *[]byte { return &r.ID }},
	{name: "item", need: MissingItem, text: func(r *Selection) *[]byte { return &r.Item }},
	{name: "time", time: func(r *Selection) *Millis { return &r.Time }, given: func(r *Selection) *bool { return &r.HasTime }},
	{name: "utility", number: func(r *Selection) *float64 { return &r.Utility }, given: func(r *Selection) *bool { return &r.HasUtility }},
	{name: "shown", only: ShownByUtility, given: func(r *Selection) *bool { return &r.ByUtility }},
})

// Selection reads a selection into dst.
func (d *Decoder) Selection(dst *Selection, key, value []byte) error {
	return d.SelectionIn(dst, key, Content{Form: d.formats.Of(Selections, value), Value: value})
}

// SelectionIn reads a selection of known form.
func (d *Decoder) SelectionIn(dst *Selection, key []byte, c Content) error {
	return selections.decode(d, Selections, dst, key, c)
}

// AppendSelection appends a selection in JSON.
func AppendSelection(dst []byte, r *Selection) []byte {
	return append(selections.appendJSON(dst, r, 0, len(selections.rows)), '}')
}

// AppendProtobufSelection appends a selection in Protobuf.
func AppendProtobufSelection(dst []byte, r *Selection) []byte {
	return selections.appendProtobuf(dst, r, 0, len(selections.rows))
}
