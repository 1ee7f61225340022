package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrForbidden: the store refuses the credentials, or they lack a right. A worker can do without a Registry.
var ErrForbidden = errors.New("state: the store's rights do not allow it")

type WorkerInfo struct {
	ID       string            `json:"id"` // of this process, unique
	Version  string            `json:"version,omitempty"`
	Learners map[string]string `json:"learners,omitempty"` // fingerprints by name
	Layout   int               `json:"layout,omitempty"`   // version of the state that it reads
	Digest   string            `json:"digest,omitempty"`   // of all settings of its learners; empty: unknown in its version
	Outside  bool              `json:"outside,omitempty"`  // it does not join the group, since it is not fit to work
	// At is the time of the announcement in milliseconds, by the clock of the store, which sets it.
	At int64 `json:"at,omitempty"`
}

type Registry interface {
	// Announce stores self, and returns all announcements within WorkerKept, self included, by ID. Times are the store's, so that workers'
	// clocks do not matter. After a failover they may be another server's: whoever waits for others measures by its own clock for how long
	// At stays the same. Above the bounds below, the latest are kept. It fails with ErrForbidden if the store lacks a right that nothing
	// else needs.
	Announce(ctx context.Context, self WorkerInfo) ([]WorkerInfo, error)
	// Workers returns the announcements within WorkerCounts, by the store's clock.
	Workers(ctx context.Context) ([]WorkerInfo, error)
	// Withdraw deletes a leaving worker's announcement and page data.
	Withdraw(ctx context.Context, id string) error
	// Show stores a worker's data for the live page, a JSON object that is not empty. It returns the data of all workers stored within
	// WorkerCounts, its own included, latest first. Above the bounds below, the latest are kept. It fails with ErrForbidden like Announce.
	Show(ctx context.Context, id string, shows []byte) ([][]byte, error)
	// MemoryUsed returns the share of its memory that the store uses, of its fullest server; 0 if it is not known.
	MemoryUsed(ctx context.Context) (float64, error)
}

// Bounds of a Registry.
const (
	WorkerCounts    = 30 * time.Second // since its last announcement
	WorkerKept      = 10 * time.Minute // likewise; smaller differences of servers' clocks do not matter
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

// Encode returns the stored JSON object. It fails without an ID, and above MaxWorkerBytes. Later versions only add members, since workers
// of several versions read it.
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

// DecodeWorker reads the output of Encode, and ignores unknown members.
func DecodeWorker(b []byte) (w WorkerInfo, err error) {
	if err = json.Unmarshal(b, &w); err == nil && w.ID == "" {
		err = errors.New("a worker without an id")
	}
	return w, err
}
