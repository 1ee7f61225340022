package task

import "fmt"

// replay leads a task through what was read since the checkpoint. The cursor says what was decided; the recorded steps say in
// which order records were taken in before.
type replay struct {
	on               bool // the cursor is asked first
	cursor           cursor
	recorded         recordedSteps
	stepsBegun       bool // recorded has the steps of the cursor's decision
	verifyingEarlier bool // it is being looked up whether the state holds the cursor's earlier decisions
}

// beginSteps begins with the steps of the decision at hand. At is how far the topics have been stepped.
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

// adopted goes on behind the decision at hand.
func (r *replay) adopted() {
	r.cursor.pop()
	r.recorded.adopted()
	r.stepsBegun = false
}

// ending tells whether all decisions are adopted, and no earlier one is still being looked up.
func (r *replay) ending() bool {
	return r.on && r.cursor.ended && !r.cursor.decoded && !r.verifyingEarlier
}
