package serve

import (
	"encoding/json"
	"fmt"
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

func newProblem(status int, kind, title, detail string) *problem {
	return &problem{Type: problemType + kind, Title: title, Status: status, Detail: detail}
}

func noToken() *problem {
	return newProblem(http.StatusUnauthorized, "no-token", "A valid bearer token is needed", "")
}

func tooMany(whose string) *problem {
	return newProblem(http.StatusTooManyRequests, "too-many-requests", "More requests a second than are allowed", whose)
}

func busy() *problem {
	return newProblem(http.StatusServiceUnavailable, "busy", "As many requests as are allowed are under way", "")
}

func notJSON() *problem {
	return newProblem(http.StatusUnsupportedMediaType, "not-json", "The body must be application/json", "")
}

func tooLarge(detail string) *problem {
	return newProblem(http.StatusRequestEntityTooLarge, "too-large", "The record or the body is too large", detail)
}

func unreadableBody(detail string) *problem {
	return newProblem(http.StatusBadRequest, "unreadable-body", "The body could not be read", detail)
}

func faultyRecord(errors ...problemError) *problem {
	p := newProblem(http.StatusUnprocessableEntity, "faulty-record", "A record is faulty, and nothing was written", errors[0].Detail)
	p.Errors = errors
	return p
}

func otherCandidates() *problem {
	return newProblem(http.StatusConflict, "other-candidates", "An impression of this id was ranked before, with other candidates", "")
}

func otherLearner(by string) *problem {
	return newProblem(http.StatusConflict, "other-learner", "An impression of this id was ranked before, by another learner",
		fmt.Sprintf("by %q; use another id for another impression", by))
}

func notWritten(detail string) *problem {
	return newProblem(http.StatusServiceUnavailable, "not-written",
		"Some records could not be written; send all of them again: duplicates count once (with aggregate: sum by event_id)", detail)
}

func unknownRanking(detail string) *problem {
	return newProblem(http.StatusNotFound, "unknown-ranking", "No ranking of this impression was found", detail)
}

func unreadableLog(detail string) *problem {
	return newProblem(http.StatusServiceUnavailable, "unreadable-log", "The rankings could not be read", detail)
}

func faultyTime(detail string) *problem {
	return newProblem(http.StatusBadRequest, "faulty-time", "The parameter time is not a time", detail)
}

func foreign(status int, detail string) *problem {
	return newProblem(status, "foreign", "A request for another host, or from another site", detail)
}

func noSuchPath() *problem {
	return newProblem(http.StatusNotFound, "no-such-path", "Unknown path", "")
}

func otherMethod(allowed string) *problem {
	return newProblem(http.StatusMethodNotAllowed, "other-method", "This path takes another method", allowed)
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
