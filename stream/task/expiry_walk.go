package task

// A step of the expiry walk takes walkAtLeast ids. There is one step per checkpoint, and an impression is visited up to three times. So a
// step that did not reach the end is followed by one of twice its size, up to walkAtMost, which bounds a reply. Otherwise due ids would
// pile up in a busy store.
const (
	walkAtLeast = 4000
	walkAtMost  = 32_000
	walkTimeout = 2 * callTimeout // of a step, which is several calls

	maxWalkBytes = 16 << 20 // of a step's entries
)

type expiryWalk struct {
	walking bool
	limit   int  // of the next step; 0: walkAtLeast
	behind  bool // the last step has not reached the end
}

// begin starts a step, and returns its bound.
func (w *expiryWalk) begin() (limit int) {
	w.walking = true
	return max(w.limit, walkAtLeast)
}

// took ends a step; more means that it has not reached the end.
func (w *expiryWalk) took(limit int, more bool) {
	w.walking, w.behind, w.limit = false, more, walkAtLeast
	if more {
		w.limit = min(2*limit, walkAtMost)
	}
}

// failed shrinks the next batch: this one may have timed out because it was too large.
func (w *expiryWalk) failed() { w.limit = walkAtLeast }
