package task

// A step of the expiry walk takes walkAtLeast ids. There is one step per checkpoint, however long that takes, and an
// impression is walked over up to three times; so a step that has not come to the end is followed by one of twice its size, up to
// walkAtMost, which bounds what one reply holds. Else a busy store would be left with more and more ids whose time has come.
const (
	walkAtLeast = 4000
	walkAtMost  = 32_000
	walkTimeout = 2 * callTimeout // of a step, which is several calls

	maxWalkBytes = 16 << 20 // of a step's entries
)

// expiryWalk is the walk over ids whose deadlines are past. One step is under way at a time.
type expiryWalk struct {
	walking bool
	limit   int  // of the next step; 0: walkAtLeast
	behind  bool // the last step has not come to the end
}

// begin begins a step, of at most so many ids.
func (w *expiryWalk) begin() (limit int) {
	w.walking = true
	return max(w.limit, walkAtLeast)
}

// took ends a step of at most limit ids; more says that it has not come to the end.
func (w *expiryWalk) took(limit int, more bool) {
	w.walking, w.behind, w.limit = false, more, walkAtLeast
	if more {
		w.limit = min(2*limit, walkAtMost)
	}
}

// failed makes the next step, which may begin some time later, a small one: so many ids may have been too many for the time
// there is.
func (w *expiryWalk) failed() { w.limit = walkAtLeast }
