package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrForbidden: the store refuses something for want of a right, or refuses the credentials. A worker can do without a Registry.
var ErrForbidden = errors.New("state: the store's rights do not allow it")

// WorkerInfo is what a worker of a group tells the others of its configuration.
type WorkerInfo struct {
	ID       string            `json:"id"` // of this process: no other has it
	Version  string            `json:"version,omitempty"`
	Learners map[string]string `json:"learners,omitempty"` // fingerprints by name
	Layout   int               `json:"layout,omitempty"`   // the highest of rankings that it can adopt
	Digest   string            `json:"digest,omitempty"`   // of all settings of its learners; empty: its version does not say
	Outside  bool              `json:"outside,omitempty"`  // it stays outside of the group, since it is not fit to work
	// At is when it was noted, in milliseconds by the clock of the store that noted it. Announce gives it, and takes none.
	At int64 `json:"at,omitempty"`
}

// Registry is where the workers of a group tell each other how they are configured.
type Registry interface {
	// Announce notes self, and returns all that were noted within WorkerKept, self among them, by ID. Times are the
	// store's own, so that the workers' clocks do not matter. After a failover they may be another server's: so whoever waits for
	// others goes by how long At stays the same, by its own clock. Where there are more than the bounds below allow, the latest
	// are kept. It fails with ErrForbidden where the store lacks a right that nothing else needs.
	Announce(ctx context.Context, self WorkerInfo) ([]WorkerInfo, error)
	// Workers are all that were noted within WorkerCounts, by the store's clock. It notes nothing.
	Workers(ctx context.Context) ([]WorkerInfo, error)
	// Withdraw forgets a worker that leaves, and what it shows.
	Withdraw(ctx context.Context, id string) error
	// Show notes what a worker shows people of itself, a JSON object that is not empty, and returns what all have shown within
	// WorkerCounts, its own among them, the latest first. Where there is more than the bounds below allow, the latest is kept. It fails
	// with ErrForbidden as Announce does.
	Show(ctx context.Context, id string, shows []byte) ([][]byte, error)
}

// The bounds of a Registry.
const (
	WorkerCounts    = 30 * time.Second // since it was last noted
	WorkerKept      = 10 * time.Minute // likewise; servers' clocks that differ by less make no difference
	MaxWorkers      = 1000
	MaxWorkerBytes  = 64 << 10 // of what one says, as JSON
	MaxWorkersBytes = 4 << 20  // of what all say, with their IDs
	MaxShown        = 64       // workers that show something
	MaxShownBytes   = 32 << 10 // of what one shows
	MaxAllShown     = MaxShown * MaxShownBytes
)

// CheckShown fails where a worker shows too much, or what is no JSON object, or an empty one.
func CheckShown(id string, shows []byte) error {
	switch {
	case id == "":
		return errors.New("a worker without an id")
	case len(shows) > MaxShownBytes:
		return fmt.Errorf("worker %q shows %d bytes of itself, at most %d are kept", id, len(shows), MaxShownBytes)
	case len(shows) < 3 || shows[0] != '{' || !json.Valid(shows):
		return fmt.Errorf("worker %q shows no JSON object: %.64q", id, shows)
	}
	return nil
}

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
