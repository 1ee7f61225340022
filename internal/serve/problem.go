package serve

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// problem is an error answer by RFC 9457. Type and title of a kind of problem never change.
type problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail,omitempty"`
	Errors []problemError `json:"errors,omitempty"`
}

type problemError struct {
	Reason  event.Reason `json:"reason"`
	Detail  string       `json:"detail"`
	Pointer string       `json:"pointer"` // a JSON Pointer as a URI fragment (RFC 6901, section 6): "#/candidates/3/item"
}

const problemType = "urn:ranker-worker:problem:"

// kind is a kind of problem.
type kind struct {
	status      int
	name, title string
}

var (
	noToken         = kind{http.StatusUnauthorized, "no-token", "A valid bearer token is needed"}
	tooMany         = kind{http.StatusTooManyRequests, "too-many-requests", "More requests a second than are allowed"}
	busy            = kind{http.StatusServiceUnavailable, "busy", "As many requests as are allowed are under way"}
	notJSON         = kind{http.StatusUnsupportedMediaType, "not-json", "The body must be application/json"}
	tooLarge        = kind{http.StatusRequestEntityTooLarge, "too-large", "The record or the body is too large"}
	unreadableBody  = kind{http.StatusBadRequest, "unreadable-body", "The body could not be read"}
	faultyRecord    = kind{http.StatusUnprocessableEntity, "faulty-record", "A record is faulty, and nothing was written"}
	otherCandidates = kind{http.StatusConflict, "other-candidates", "An impression of this id was ranked before, with other candidates"}
	otherLearner    = kind{http.StatusConflict, "other-learner", "An impression of this id was ranked before, by another learner"}
	notWritten      = kind{http.StatusServiceUnavailable, "not-written",
		"Some records could not be written; send all of them again: duplicates count once (with aggregate: sum by event_id)"}
	unknownRanking = kind{http.StatusNotFound, "unknown-ranking", "No ranking of this impression was found"}
	unreadableLog  = kind{http.StatusServiceUnavailable, "unreadable-log", "The rankings could not be read"}
	faultyTime     = kind{http.StatusBadRequest, "faulty-time", "The parameter time is not a time"}
	noSuchPath     = kind{http.StatusNotFound, "no-such-path", "Unknown path"}
	otherMethod    = kind{http.StatusMethodNotAllowed, "other-method", "This path takes another method"}
)

func (k kind) problem(detail string) *problem {
	return &problem{Type: problemType + k.name, Title: k.title, Status: k.status, Detail: detail}
}

func faulty(errors ...problemError) *problem {
	p := faultyRecord.problem(errors[0].Detail)
	p.Errors = errors
	return p
}

func foreign(status int, detail string) *problem {
	return kind{status, "foreign", "A request for another host, or from another site"}.problem(detail)
}

// faultOf converts a record's fault. prefix is the record's place in the body.
func faultOf(f *event.Fault, prefix string) problemError {
	return problemError{Reason: f.Reason, Detail: f.Detail, Pointer: "#" + prefix + f.Pointer}
}

func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers never fail
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBody(w, p.Status, "application/problem+json", append(body, '\n'))
}

// writeBody answers. A failed write means that the client has gone.
func writeBody(w http.ResponseWriter, status int, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
