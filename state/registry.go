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

// WorkerInfo is a worker's announcement to the other workers of its group.
type WorkerInfo struct {
	ID       string            `json:"id"` // of this process: no other has it
	Version  string            `json:"version,omitempty"`
	Learners map[string]string `json:"learners,omitempty"` // fingerprints by name
	Layout   int               `json:"layout,omitempty"`   // version of the state that it reads
	Digest   string            `json:"digest,omitempty"`   // of all settings of its learners; empty: its version does not say
	Outside  bool              `json:"outside,omitempty"`  // it stays outside of the group, since it is not fit to work
	// At is when it was noted, in milliseconds by the clock of the store that noted it. Announce gives it, and takes none.
	At int64 `json:"at,omitempty"`
}

// Registry holds the announcements of a group's workers.
type Registry interface {
	// Announce notes self, and returns all that were noted within WorkerKept, self among them, by ID. Times are the
	// store's own, so that the workers' clocks do not matter. After a failover they may be another server's: so whoever waits for
	// others goes by how long At stays the same, by its own clock. Where there are more than the bounds below allow, the latest
	// are kept. It fails with ErrForbidden where the store lacks a right that nothing else needs.
	Announce(ctx context.Context, self WorkerInfo) ([]WorkerInfo, error)
	// Workers are all that were noted within WorkerCounts, by the store's clock. It notes nothing.
	Workers(ctx context.Context) ([]WorkerInfo, error)
	// Withdraw deletes the announcement of a worker that leaves, and its page data.
	Withdraw(ctx context.Context, id string) error
	// Show stores a worker's data for the live page, a JSON object that is not empty. It returns the data of all
	// workers stored within WorkerCounts, its own included, latest first. Above the bounds below, the latest are
	// kept. It fails with ErrForbidden as Announce does.
	Show(ctx context.Context, id string, shows []byte) ([][]byte, error)
}

// The bounds of a Registry.
const (
	WorkerCounts    = 30 * time.Second // since it was last noted
	WorkerKept      = 10 * time.Minute // likewise; servers' clocks that differ by less make no difference
	MaxWorkers      = 1000
	MaxWorkerBytes  = 64 << 10 // of one announcement, as JSON
	MaxWorkersBytes = 4 << 20  // of all announcements, with their IDs
	MaxShown        = 64       // workers that show something
	MaxShownBytes   = 32 << 10 // of one worker's page data
	MaxAllShown     = MaxShown * MaxShownBytes
)

// CheckShown fails if page data is too large, empty, or no JSON object.
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

// Encode returns the JSON object that is stored. It fails without an ID, and above MaxWorkerBytes. Later versions only add members,
// since workers of several versions read it.
func (w *WorkerInfo) Encode() ([]byte, error) {
	if w.ID == "" {
		return nil, errors.New("a worker without an id")
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode the announcement of worker %q: %w", w.ID, err)
	}
	if len(b) > MaxWorkerBytes {
		return nil, fmt.Errorf("worker %q says %d bytes of itself, at most %d are kept", w.ID, len(b), MaxWorkerBytes)
	}
	return b, nil
}

// DecodeWorker reads such an object. It ignores members that it does not know.
func DecodeWorker(b []byte) (w WorkerInfo, err error) {
	if err = json.Unmarshal(b, &w); err == nil && w.ID == "" {
		err = errors.New("a worker without an id")
	}
	return w, err
}
