package state

import (
	"context"
	"errors"
	"fmt"
)

var ErrVersion = errors.New("state: the stored version cannot be used")

// Upgrade converts a partition's stored state from one version to the next. After a crash it starts again, so Field and Entry must return a
// value of the next version unchanged.
type Upgrade struct {
	// Hashes returns the names of the partition's hashes, without "meta", given the latter's fields.
	Hashes func(meta []Field) ([]string, error)
	// Field returns a field's new value, also for the fields of "meta" that are not Meta's; nil deletes the field.
	Field func(Field) ([]byte, error)
	Entry func(value []byte) ([]byte, error)
}

// Upgrades holds the upgrade from each version to the next, by the former.
type Upgrades map[int]Upgrade

// upgradeBytes bounds the changes of one checkpoint, except for the last value.
const upgradeBytes = 1 << 20

// Run brings partition p to version to, one version after the other. It takes the partition over, which fences the owner. While values
// change, Meta.Layout is the negated next version, which no version loads. It fails with ErrVersion if the stored version is higher, or an
// upgrade is missing, and then changes nothing. It fails with ErrFenced if another owner has taken the partition over. It may be run again
// after any error.
func (u Upgrades) Run(ctx context.Context, s AdminStore, p int32, to int) error {
	m, _, err := s.View(ctx, p, nil)
	if err != nil || m.Layout == to {
		return err
	}
	from, highest := m.Layout, m.Layout
	if from < 0 {
		from, highest = -from-1, -from
	}
	if highest > to {
		return fmt.Errorf("%w: it is %d, this program reads %d", ErrVersion, highest, to)
	}
	for v := from; v < to; v++ {
		if _, ok := u[v]; !ok {
			return fmt.Errorf("%w: it is %d, this program reads %d, and has no upgrade from %d", ErrVersion, from, to, v)
		}
	}
	if m, err = s.Acquire(ctx, p, m.Generation, false, nil); err != nil {
		return err
	}
	r := upgrading{ctx: ctx, store: s, p: p, meta: m}
	for v := from; v < to; v++ {
		if err := r.run(u[v], v+1); err != nil {
			return fmt.Errorf("upgrading partition %d from version %d to %d: %w", p, v, v+1, err)
		}
	}
	return nil
}

type upgrading struct {
	ctx     context.Context
	store   AdminStore
	p       int32
	meta    Meta
	changes Changes
	bytes   int
}

func (r *upgrading) run(u Upgrade, to int) error {
	_, fields, err := r.store.View(r.ctx, r.p, nil)
	if err != nil {
		return err
	}
	hashes, err := u.Hashes(fields)
	if err != nil {
		return err
	}
	r.meta.Layout = -to
	if err := r.save(); err != nil { // before any other change: no lower version loads a mixture
		return err
	}
	for _, h := range append(hashes, MetaHash) { // meta last: it names the hashes
		if err := r.fields(u, h); err != nil {
			return err
		}
	}
	if err := r.entries(u); err != nil {
		return err
	}
	r.meta.Layout = to
	return r.save()
}

func (r *upgrading) fields(u Upgrade, hash string) error {
	names := []string{hash}
	if hash == MetaHash {
		names = nil // Load returns it always
	}
	all, err := r.store.Load(r.ctx, r.p, names)
	if err != nil {
		return err
	}
	for _, f := range all {
		if f.Hash != hash {
			continue
		}
		value, err := u.Field(f)
		if err != nil {
			return fmt.Errorf("field %.64q of %q: %w", f.Field, f.Hash, err)
		}
		r.changes.Writes = append(r.changes.Writes, Write{Hash: f.Hash, Field: f.Field, Value: value})
		if err := r.add(len(f.Field) + len(value)); err != nil {
			return err
		}
	}
	return nil
}

// entries upgrades all pages. Numbers and buckets stay, so that the iteration meets each page.
func (r *upgrading) entries(u Upgrade) error {
	for cursor, begun := uint64(0), false; !begun || cursor != 0; begun = true {
		pages, next, err := r.store.KnownIDs(r.ctx, r.p, cursor)
		if err != nil {
			return err
		}
		for _, page := range pages {
			if err := r.page(u, page); err != nil {
				return err
			}
		}
		cursor = next
	}
	return nil
}

func (r *upgrading) page(u Upgrade, page PageOfIDs) error {
	places := make([]Place, len(page.IDs))
	for i, id := range page.IDs {
		places[i] = Place{page.Number, id}
	}
	for len(places) > 0 {
		at, values, err := r.store.LookUp(r.ctx, r.p, places, upgradeBytes)
		if err == nil && at != r.meta.Fence {
			err = ErrFenced
		}
		if err != nil {
			return err
		}
		for i, old := range values {
			value, err := u.Entry(old)
			if err == nil && value == nil {
				err = errors.New("an upgrade must not delete it")
			}
			if err != nil {
				return fmt.Errorf("entry %s of page %d: %w", places[i].ID, page.Number, err)
			}
			r.changes.Entries = append(r.changes.Entries, Entry{places[i], value})
			if err := r.add(len(value)); err != nil {
				return err
			}
		}
		places = places[len(values):]
	}
	return nil
}

// add counts a change, and saves above upgradeBytes.
func (r *upgrading) add(bytes int) error {
	if r.bytes += bytes; r.bytes < upgradeBytes {
		return nil
	}
	return r.save()
}

func (r *upgrading) save() error {
	c := &Checkpoint{Fence: r.meta.Fence, ID: fmt.Sprintf("%s-%d", r.meta.Token, r.meta.Seq+1), Meta: r.meta, Changes: r.changes}
	if err := r.store.Checkpoint(r.ctx, r.p, c); err != nil {
		return err
	}
	r.meta.Seq++
	r.changes, r.bytes = Changes{}, 0
	return nil
}
