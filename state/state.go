package state

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrFenced: the stored (token, seq) is not the caller's: another owner has taken over, or the store was rolled back.
	ErrFenced = errors.New("state: fenced: the stored token or sequence is not ours")
	// ErrNoState: nothing is stored for this partition.
	ErrNoState = errors.New("state: nothing is stored for this partition")
	// ErrTorn: an unfinished checkpoint has not been repaired by its writer.
	ErrTorn = errors.New("state: a checkpoint was written only in part")
	// ErrGeneration: the stored generation is higher than the caller's.
	ErrGeneration = errors.New("state: a later generation of the group owns this partition")
	// ErrIncomplete: an unfinished checkpoint. Nothing was read. Its writer, if alive, repairs it by sending it again, so the read is worth
	// another try. (Acquire and Checkpoint fail with ErrTorn.)
	ErrIncomplete = errors.New("state: a checkpoint is not complete yet")
	// ErrUnfit: the store answers, but its settings do not keep state safe. The error names the setting to change.
	ErrUnfit = errors.New("state: the store is not fit")
	// ErrLost: the store has evicted keys since it was first asked, so state may be missing. It is also ErrUnfit, and permanent.
	ErrLost = errors.New("state: the store has deleted keys")
	// ErrGap: the deltas do not continue the given position; the follower reloads with Sums.
	ErrGap = errors.New("state: the deltas do not lead on from here")
)

// Fence identifies a state: its writer (token, fresh at each acquire) and the number of checkpoints.
type Fence struct {
	Token string
	Seq   int64
}

// Position is the offset up to which a topic has been read. Its witness shows whether the topic is still the same log.
type Position struct {
	Offset  int64   // next offset to read
	Witness Witness // of the last record read; its Offset is -1 for none
}

// Witness identifies a record of the log.
type Witness struct {
	Offset    int64
	Timestamp int64  // milliseconds
	Hash      uint64 // of key and value
}

// MetaHash is the hash of Meta, which the store writes, and other fields of the partition.
const MetaHash = "meta"

// Meta is the protocol's part of a partition's state. It is stored field by field in the hash "meta", readable with redis-cli. Other fields
// of that hash belong to stream/partition and travel as Writes.
type Meta struct {
	Fence
	Generation   int64
	CheckpointID string
	Layout       int
	ClusterID    string
	TopicNames   []string   // by event.Topic
	Partitions   int        // partition count of all topics
	Inputs       []Position // by event.Topic, input topics only
	Rankings     int64      // first offset of rankings[p] that a replay reads decisions from
	// RankingsWitness is the last of our own rankings that the checkpoint covers.
	RankingsWitness Witness
	ProducerID      int64 // -1: none yet
	ProducerEpoch   int16
	// FormerProducers are earlier ids, latest last. Decisions of theirs may stand behind Rankings, and a worker that still holds one has to
	// be fenced.
	FormerProducers []int64
}

// Write sets a field of one of the partition's hashes, or deletes it if Value is nil.
type Write struct {
	Hash    string // without the partition's prefix: "meta", "feed:items", …
	Field   []byte
	Value   []byte
	Publish bool // also goes into the stream of deltas
}

// Delta holds the published writes of one checkpoint.
type Delta struct {
	Fence  Fence // of the state after the checkpoint
	Fields []Field
}

// Follower reads the deltas that other partitions' owners publish. Token in its positions is that of the last checkpoint's writer, so an
// acquire alone changes nothing for followers.
type Follower interface {
	// Sums reads the named hashes and their position, atomically.
	Sums(ctx context.Context, p int32, hashes []string) (Fence, []Field, error)
	// Deltas reads deltas after a position, oldest first and a bounded number: more than a source publishes in six seconds. It fails with
	// ErrGap if they do not continue the position.
	Deltas(ctx context.Context, p int32, after Fence) ([]Delta, error)
}

// Entries lie in pages: hashes of a bounded number of entries. A page belongs to one bucket of event time, in which its entries fall due,
// so the pages of a bucket list the due entries without another index. The partition's owner chooses an entry's page, keeps it in memory,
// and names it in requests. A page exists as long as it holds an entry.

// Page begins a page, under a number that the owner chooses. An existing one keeps its bucket.
type Page struct {
	Number uint32
	Bucket int64
}

type Place struct {
	Page uint32
	ID   ID
}

// Entry sets the value at a place, or deletes it if Value is nil. Its page exists already, or begins in the same Changes.
type Entry struct {
	Place
	Value []byte
}

// PageOfIDs is a page with its entries' ids.
type PageOfIDs struct {
	Page
	IDs []ID
}

type PageOfEntries struct {
	Page
	Entries map[ID][]byte
}

// Changes are the changes of one or more steps, as absolute values. Later elements win over earlier ones.
type Changes struct {
	Writes  []Write
	Pages   []Page
	Entries []Entry
}

// Checkpoint replaces one consistent cut by the next.
type Checkpoint struct {
	Fence   Fence  // must equal the stored one; Seq rises by one
	ID      string // unique to this checkpoint: repeating a finished one succeeds without effect
	Meta    Meta   // the new cut; its Fence, Generation and CheckpointID are ignored
	Changes Changes
	// Drop names hashes of learners to empty before the changes. Followers then reload all hashes.
	Drop []string
}

// Field is a stored field of a hash. In a Delta, a nil Value means that it was deleted.
type Field struct {
	Hash         string
	Field, Value []byte
}

// AdminStore is a store that administrative commands read and repair.
type AdminStore interface {
	Store
	// View reads the cut, the named hashes and the other fields of "meta", atomically, without taking the partition over. It fails with
	// ErrNoState or ErrIncomplete.
	View(ctx context.Context, p int32, hashes []string) (Meta, []Field, error)
	// ViewAll is View with all pages. It blocks the store.
	ViewAll(ctx context.Context, p int32, hashes []string) (Meta, []Field, []PageOfEntries, error)
	// Drop deletes all state of p, torn or not, if the stored token equals the given one, which Acquire returned, or the given one is
	// empty. The fence is deleted last. If nothing is stored, it deletes the rest of an earlier Drop.
	Drop(ctx context.Context, p int32, token string) error
}

// Store keeps the state of partitions. Methods are safe for concurrent use, and honour their context's deadline. After an error with an
// unknown outcome, a method may be called again. Arguments belong to the caller on return, and so do results.
type Store interface {
	// Acquire takes partition p over: it writes a fresh token and the generation, and returns the cut. If nothing is stored, it stores
	// fresh, unless that is nil. It fails with ErrNoState, ErrTorn, or ErrGeneration; force takes over from a higher generation.
	Acquire(ctx context.Context, p int32, generation int64, force bool, fresh *Meta) (Meta, error)
	// Load reads the named hashes of a partition that the caller has acquired, and always the fields of "meta" that are not Meta's.
	Load(ctx context.Context, p int32, hashes []string) ([]Field, error)
	// LookUp reads the values at places (nil: none) and the fence, atomically. It returns fewer values than places, those of the first, but
	// at least one, if they exceed room bytes or if a checkpoint comes in between.
	LookUp(ctx context.Context, p int32, places []Place, room int64) (f Fence, values [][]byte, err error)
	// Due reads at most limit entries from the pages of the lowest buckets up to upTo, with the fence, atomically. It stops at room bytes;
	// more reports that entries are left. It returns none only without such a page, or if limit is 0.
	Due(ctx context.Context, p int32, upTo int64, limit int, room int64) (f Fence, due []Entry, more bool, err error)
	// KnownIDs iterates over all pages, some megabytes of ids at a time, from cursor 0 until the returned cursor is 0. Each page is
	// returned once, in full, if no page begins or ends meanwhile. The fence, read at the end, shows whether another owner may have done so.
	KnownIDs(ctx context.Context, p int32, cursor uint64) (pages []PageOfIDs, next uint64, err error)
	// Checkpoint stores a checkpoint, atomically for readers of the fence. It fails with ErrFenced.
	Checkpoint(ctx context.Context, p int32, c *Checkpoint) error
	// Probe reads the fence. It fails with ErrUnfit while the store's settings allow it to delete state, and with ErrLost once it has.
	Probe(ctx context.Context, p int32) (Fence, error)
	// Ready fails if the store cannot be written to, or if its settings do not keep state safe.
	Ready(ctx context.Context) error
	// Fit fails if the store is not Ready, or would refuse an operation that a worker needs for partitions 0 to partitions-1. It does not
	// change their state. It fails with ErrForbidden if the store refuses the worker's credentials, or these lack a right.
	Fit(ctx context.Context, partitions int) error
	Close() error
}

// Patiently reads a partition again, for a second, while that fails with ErrIncomplete.
func Patiently(ctx context.Context, read func() error) error {
	const pause, tries = 20 * time.Millisecond, 50
	for try := 0; ; try++ {
		if err := read(); !errors.Is(err, ErrIncomplete) || try == tries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
