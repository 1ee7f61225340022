package checker

import (
	"encoding/json"
	"strings"
)

// history is a thing that a command has done to the stored state.
type history struct {
	Number  int64  `json:"number"`
	Done    string `json:"done"`
	Learner string `json:"learner"`
}

// readHistory reads what commands have done; what cannot be read is a violation.
func (st *state) readHistory(field, value string, out *findings) {
	if !strings.HasPrefix(field, "history.") {
		return
	}
	var h history
	err := json.Unmarshal([]byte(value), &h)
	if !out.ok(metaFields, err == nil && h.Done != "") {
		out.breach(metaFields, field, "what was done", value)
		return
	}
	st.history = append(st.history, h)
}

// heed takes from what commands have done what the log alone does not tell. A learner that was reset is another one since,
// and one that took something in knows more than the log says: of those, only what does not depend on it is compared.
func (f *fold) heed() {
	for _, h := range f.state.history {
		lf := f.learners[h.Learner]
		switch h.Done {
		case "reset":
			f.out.skip("learner %q was reset by checkpoint %d: what became of its impressions, and what it knows, is not compared", h.Learner, h.Number)
			if lf != nil {
				lf.always, lf.unknown = false, true
			}
		case "import":
			f.out.skip("learner %q took an export in by checkpoint %d: what it knows is not compared", h.Learner, h.Number)
			if lf != nil {
				lf.unknown = true
			}
		case "rebuild":
		default:
			f.out.skip("checkpoint %d was made by %q: the log alone does not tell what must be stored", h.Number, h.Done)
			f.partial = true
		}
	}
}
