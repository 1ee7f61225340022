package state

import (
	"context"
	"errors"
)

// Errors of a Store, to be matched with errors.Is.
var (
	// ErrFenced: the stored (token, seq) is not the caller's. Another owner has taken over, or the store was rolled back.
	ErrFenced = errors.New("state: fenced: the stored token or sequence is not ours")
	// ErrNoState: nothing is stored for this partition.
	ErrNoState = errors.New("state: nothing is stored for this partition")
	// ErrTorn: a checkpoint was cut off half-way and has not been repaired by its writer.
	ErrTorn = errors.New("state: a checkpoint was written only in part")
	// ErrGeneration: the stored generation is higher than the caller's.
	ErrGeneration = errors.New("state: a later generation of the group owns this partition")
	// ErrIncomplete: a read met a checkpoint that was written only in part. Nothing was read. Its writer, if it lives,
	// sends it again and so repairs it: the read is worth another try. (Acquire and Checkpoint fail with ErrTorn.)
	ErrIncomplete = errors.New("state: a checkpoint is not complete yet")
	// ErrUnfit: the store answers, but its settings do not keep state safe. The error names the setting to change.
	ErrUnfit = errors.New("state: the store is not fit")
	// ErrLost: the store has evicted keys since we first looked, so state may be missing. It is also ErrUnfit, and
	// does not pass by itself.
	ErrLost = errors.New("state: the store has deleted keys")
	// ErrGap: the deltas do not lead on from the position asked for: the follower reloads with Sums.
	ErrGap = errors.New("state: the deltas do not lead on from here")
)

// Fence identifies a state exactly: who wrote it (token, fresh at each acquire) and how many checkpoints there were.
type Fence struct {
	Token string
	Seq   int64
}

// Position is the offset up to which a topic has been read. Its witness shows whether the topic is still the same
// log.
type Position struct {
	Offset  int64   // next offset to read
	Witness Witness // of the last record read; its Offset is -1 where there was none
}

// Witness identifies one record of the log.
type Witness struct {
	Offset    int64
	Timestamp int64  // milliseconds
	Hash      uint64 // of key and value
}

// MetaHash is the hash of a partition's own fields: those of Meta, which the store writes, and others.
const MetaHash = "meta"

// Meta is the protocol's part of a partition's state. It is stored field by field in the hash "meta", readable with
// redis-cli. Other fields of that hash belong to stream/partition and travel as Writes.
type Meta struct {
	Fence
	Generation   int64
	CheckpointID string
	Layout       int
	ClusterID    string
	TopicNames   []string   // by event.Topic
	Partitions   int        // partition count of all topics
	Inputs       []Position // by event.Topic, input topics only
	Rankings     int64      // offset in rankings[p] from which decisions are looked for in a replay
	// RankingsWitness is the last of our own rankings that the checkpoint covers.
	RankingsWitness Witness
	ProducerID      int64 // -1: none yet
	ProducerEpoch   int16
	// FormerProducers are earlier ids, the latest last: decisions of theirs may stand behind Rankings, and a worker that
	// still holds one has to be fenced.
	FormerProducers []int64
}

// Write sets a field of one of the partition's hashes, or deletes it where Value is nil.
type Write struct {
	Hash    string // without the partition's prefix: "meta", "feed:items", …
	Field   []byte
	Value   []byte
	Publish bool // also goes into the stream of deltas that other partitions follow
}

// Delta holds the published writes of one checkpoint: those with Publish set.
type Delta struct {
	Fence  Fence // of the state that the checkpoint made; the next delta leads on from it
	Fields []Field
}

// Follower reads the deltas that owners of other partitions publish. In its positions, Token is that of the last
// checkpoint's writer; an acquire alone changes nothing that a follower sees.
type Follower interface {
	// Sums reads the named hashes whole, and the position that they belong to, atomically.
	Sums(ctx context.Context, p int32, hashes []string) (Fence, []Field, error)
	// Deltas reads deltas after a position, oldest first, a bounded number of them; call it again until it returns
	// none. It fails with ErrGap where they do not lead on from the position.
	Deltas(ctx context.Context, p int32, after Fence) ([]Delta, error)
}

// Entries lie in pages: hashes of a bounded number of entries. Each page belongs to one bucket of event time, in which its
// entries fall due. So the pages of a bucket list the entries that are due, and there is no other index. The
// partition's owner chooses an entry's page, keeps it in memory, and names it in requests. A page exists as long as
// it holds an entry.

// Page begins a page. Numbers are the owner's to choose; one that is there already has the bucket that it had.
type Page struct {
	Number uint32
	Bucket int64
}

// Place is where an entry lies.
type Place struct {
	Page uint32
	ID   ID
}

// Entry sets the value at a place, or deletes it where Value is nil. Its page exists already, or begins in the same
// Changes.
type Entry struct {
	Place
	Value []byte
}

// PageOfIDs is a page, and under which ids something lies in it.
type PageOfIDs struct {
	Page
	IDs []ID
}

// PageOfEntries is a page with all that lies in it.
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
	Fence   Fence  // the stored fence must equal it; Seq rises by one
	ID      string // unique to this checkpoint: the same ID again, not torn, is a success already
	Meta    Meta   // the new cut; its Fence, Generation and CheckpointID are not looked at
	Changes Changes
	// Drop names hashes of learners that are emptied before the changes are made. Followers reload all hashes then.
	Drop []string
}

// Field is one stored field of a hash. In a Delta, a Value of nil says that it was deleted.
type Field struct {
	Hash         string
	Field, Value []byte
}

// AdminStore is a store that people, and the commands that serve them, look into and put in order.
type AdminStore interface {
	Store
	// View reads the cut, the named hashes and the fields of "meta" that are not Meta's, in one atomic step. It does
	// not take the partition over, and its owner notices nothing. It fails with ErrNoState or ErrIncomplete.
	View(ctx context.Context, p int32, hashes []string) (Meta, []Field, error)
	// Whole reads all that View does, and all pages, in one atomic step, which blocks the store.
	Whole(ctx context.Context, p int32, hashes []string) (Meta, []Field, []PageOfEntries, error)
	// Drop deletes all state of p, torn or not, if the stored token equals the given one, which Acquire returned. An
	// empty token matches any. The fence is deleted last. Where nothing is stored, it deletes the rest of an earlier
	// Drop.
	Drop(ctx context.Context, p int32, token string) error
}

// Store keeps the state of partitions. All methods are safe for concurrent use, and honour their context's deadline.
// After an error that leaves the outcome open, a method may be called again. Arguments belong to the caller again on
// return, and results are the caller's.
type Store interface {
	// Acquire takes partition p over: it writes a fresh token and the generation, and returns the cut. With fresh
	// set, and nothing stored, it is stored with the token. It fails with ErrNoState, ErrTorn, or ErrGeneration;
	// force takes over from a higher generation.
	Acquire(ctx context.Context, p int32, generation int64, force bool, fresh *Meta) (Meta, error)
	// Load reads the named hashes whole. The fields of "meta" that are not Meta's come with hash "meta", always.
	Load(ctx context.Context, p int32, hashes []string) ([]Field, error)
	// LookUp reads the values at places (nil: none) and the fence, atomically. It reads at least one. It returns
	// fewer values than places where they exceed room bytes, or where a checkpoint comes in between; these are the
	// values of the first places.
	LookUp(ctx context.Context, p int32, places []Place, room int64) (f Fence, values [][]byte, err error)
	// Due reads at most limit entries from the pages of the lowest buckets up to upTo, with the fence, atomically. It
	// stops at room bytes; more reports that entries are left. It returns none only where no such page exists, or
	// limit is 0.
	Due(ctx context.Context, p int32, upTo int64, limit int, room int64) (f Fence, due []Entry, more bool, err error)
	// KnownIDs walks over all pages, some megabytes of ids at a time. It begins with cursor 0 and is through when the returned cursor
	// is 0. While nothing is changed each page comes, whole; one may come twice.
	KnownIDs(ctx context.Context, p int32, cursor uint64) (pages []PageOfIDs, next uint64, err error)
	// Checkpoint stores one. For readers of the fence it is stored completely or not at all. It fails with ErrFenced.
	Checkpoint(ctx context.Context, p int32, c *Checkpoint) error
	// Probe reads the fence. It fails with ErrUnfit while the store may delete state by its settings, and with ErrLost once
	// it has deleted something.
	Probe(ctx context.Context, p int32) (Fence, error)
	// Ready fails if the store cannot be written to, or if its settings do not keep state safe.
	Ready(ctx context.Context) error
	// Fit fails if the store is not Ready, or would refuse an operation that a worker needs for partitions 0 to
	// partitions-1. It changes nothing of theirs. It fails with ErrForbidden where the store refuses the worker's
	// credentials, or these lack a right.
	Fit(ctx context.Context, partitions int) error
	Close() error
}
