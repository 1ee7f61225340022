package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrForbidden: the store refuses something for want of a right. A worker can do without a Registry.
var ErrForbidden = errors.New("state: the store's rights do not allow it")

// WorkerInfo is what a worker of a group tells the others of its configuration.
type WorkerInfo struct {
	ID       string            `json:"id"` // of this process: no other has it
	Version  string            `json:"version,omitempty"`
	Learners map[string]string `json:"learners,omitempty"` // fingerprints by name
	Layout   int               `json:"layout,omitempty"`   // the highest of rankings that it can adopt
}

// Registry is where the workers of a group tell each other how they are configured.
type Registry interface {
	// Announce notes self, and returns all that were noted within WorkerCounts, self among them, by ID. Times are the
	// store's own, so that the workers' clocks do not matter. Where there are more than the bounds below allow, the latest
	// are kept. It fails with ErrForbidden where the store lacks a right that nothing else needs.
	Announce(ctx context.Context, self WorkerInfo) ([]WorkerInfo, error)
	// Withdraw forgets a worker that leaves.
	Withdraw(ctx context.Context, id string) error
}

// The bounds of a Registry.
const (
	WorkerCounts    = 30 * time.Second // since it was last noted
	MaxWorkers      = 1000
	MaxWorkerBytes  = 64 << 10 // of what one says, as JSON
	MaxWorkersBytes = 4 << 20  // of what all say, with their IDs
)

// workerForm is the version of what a worker says. A later one only adds members: what was there keeps its meaning, or gets
// another name.
const workerForm = 1

// Encode makes the JSON object that is stored, whose first member is "form".
func (w *WorkerInfo) Encode() ([]byte, error) {
	if w.ID == "" {
		return nil, errors.New("a worker without an id")
	}
	b, err := json.Marshal(struct {
		Form int `json:"form"`
		*WorkerInfo
	}{workerForm, w})
	if err != nil {
		return nil, fmt.Errorf("encode what worker %q says of itself: %w", w.ID, err)
	}
	if len(b) > MaxWorkerBytes {
		return nil, fmt.Errorf("worker %q says %d bytes of itself, at most %d are kept", w.ID, len(b), MaxWorkerBytes)
	}
	return b, nil
}

// DecodeWorker takes one apart, of any form. It passes over what it does not know.
func DecodeWorker(b []byte) (w WorkerInfo, err error) {
	if err = json.Unmarshal(b, &w); err == nil && w.ID == "" {
		err = errors.New("a worker without an id")
	}
	return w, err
}
