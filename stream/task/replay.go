package task

import "fmt"

// replay is what leads a task through what was read since the checkpoint: the cursor says what was decided, the follower in
// which order records were taken in before.
type replay struct {
	on       bool // the cursor is asked first
	cursor   cursor
	follower follower
	leading  bool // the follower has the steps of the cursor's decision
	proving  bool // it is being looked up whether the state holds the cursor's earlier decisions
}

// lead hands the steps of the decision at hand to the follower. At is how far the topics have been stepped.
func (r *replay) lead(at offsets) error {
	if !r.cursor.decoded || r.leading {
		return nil
	}
	r.leading = true
	if err := r.follower.lead(r.cursor.steps(), at); err != nil {
		return fmt.Errorf("the ranking at offset %d: %w", r.cursor.records[0].Offset, err)
	}
	return nil
}

// adopted goes on behind the decision at hand.
func (r *replay) adopted() {
	r.cursor.pop()
	r.follower.arrived()
	r.leading = false
}

// ending tells whether all decisions are adopted, and nothing has to be proven first.
func (r *replay) ending() bool { return r.on && r.cursor.through && !r.cursor.decoded && !r.proving }
