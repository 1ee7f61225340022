package task

import "fmt"

// replay steps the records read since the checkpoint: the cursor has the logged decisions, the recorded steps the order of records.
type replay struct {
	on               bool // the cursor is asked first
	cursor           cursor
	recorded         recordedSteps
	stepsBegun       bool // recorded has the steps of the cursor's decision
	verifyingEarlier bool // a look-up checks that the state holds the cursor's earlier decisions
}

// beginSteps starts the steps of the decision at hand. at are the topics' positions.
func (r *replay) beginSteps(at offsets) error {
	if !r.cursor.decoded || r.stepsBegun {
		return nil
	}
	r.stepsBegun = true
	if err := r.recorded.begin(r.cursor.steps(), at); err != nil {
		return fmt.Errorf("the ranking at offset %d: %w", r.cursor.records[0].Offset, err)
	}
	return nil
}

// adopted moves behind the decision at hand.
func (r *replay) adopted() {
	r.cursor.pop()
	r.recorded.adopted()
	r.stepsBegun = false
}

// ending reports whether all decisions are adopted, and no earlier one is being looked up.
func (r *replay) ending() bool {
	return r.on && r.cursor.ended && !r.cursor.decoded && !r.verifyingEarlier
}
