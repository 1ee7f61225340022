package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/state"
)

// group compares the workers' announcements with each other and with this configuration.
func (d *doctor) group(ctx context.Context) {
	const area = "group"
	members, counted := 0, false
	if d.reached {
		if g, err := d.broker.Group(ctx); err == nil {
			members, counted = len(g.Members), true
		}
	}
	if len(d.servers) == 0 {
		return // no store to ask
	}
	workers, err := d.store.Workers(ctx)
	switch {
	case errors.Is(err, state.ErrForbidden):
		d.add(Warning, area, "the workers' configurations cannot be compared: %v; ACL SETUSER %s +hgetall +time", err, d.cfg.Redis.Username)
		return
	case err != nil:
		d.add(Fault, area, "%v", err)
		return
	}
	away := d.outside(workers)
	running := len(workers) - away
	if counted && members != running {
		d.add(Warning, area, "group %s has %s in Kafka, and %s in Redis: the group may have other members, a worker may just have begun or ended, "+
			"or redis is not that of the workers", d.cfg.Kafka.Group, plural.N(members, "member"), plural.N(running, "running worker"))
	}
	before := len(d.found) - away
	d.between(workers)
	switch {
	case len(workers) == 0:
		d.add(OK, area, "no worker is running")
	case len(d.found) == before:
		d.add(OK, area, "running: %s, all with the learners of this configuration", plural.N(len(workers), "worker"))
	}
}

// outside names and counts the workers outside the group.
func (d *doctor) outside(workers []state.WorkerInfo) (n int) {
	for i := range workers {
		if w := &workers[i]; w.Outside {
			n++
			d.add(Warning, "group", "worker %s stays outside of the group: it is not fit to work, as its /readyz says (docs/runbooks/start.md)", short(w.ID))
		}
	}
	return n
}

// between reports differences of configurations between workers, and from this one.
func (d *doctor) between(workers []state.WorkerInfo) {
	before := len(d.found)
	for _, name := range d.names(workers) {
		by := map[string][]string{} // workers by fingerprint; empty: not configured
		for _, w := range workers {
			by[w.Learners[name]] = append(by[w.Learners[name]], short(w.ID))
		}
		ours := d.machine[name]
		if len(by) == 1 && by[ours] != nil {
			continue
		}
		var each []string
		for _, fingerprint := range slices.Sorted(maps.Keys(by)) {
			what := "it (" + fingerprint + ")"
			if fingerprint == "" {
				what = "none of that name"
			}
			each = append(each, strings.Join(by[fingerprint], ", ")+" have "+what)
		}
		own := "this file has it (" + ours + ")"
		if ours == "" {
			own = "this file has none of that name"
		}
		d.add(Warning, "group", "learner %s is not the same everywhere: workers %s; %s: start all workers with one configuration "+
			"(docs/do/roll-out-a-configuration.md)", name, strings.Join(each, "; "), own)
	}
	versions, digests := map[string]bool{}, map[string]bool{}
	for _, w := range workers {
		versions[w.Version] = true
		if w.Digest != "" && w.Digest != d.digest {
			digests[w.Digest] = true
		}
	}
	if len(digests) > 0 && len(d.found) == before {
		d.add(Warning, "group", "workers have other settings of learners than this file: fingerprints %s, here %s; start all workers with one configuration",
			strings.Join(slices.Sorted(maps.Keys(digests)), ", "), d.digest)
	}
	if len(versions) > 1 {
		d.add(Warning, "group", "workers of several versions run (%s): end the upgrade", strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	}
}

// names returns all learners of workers and configuration, if there are workers to compare.
func (d *doctor) names(workers []state.WorkerInfo) []string {
	if len(workers) == 0 {
		return nil
	}
	all := maps.Clone(d.machine)
	for i := range workers {
		maps.Copy(all, workers[i].Learners)
	}
	return slices.Sorted(maps.Keys(all))
}

// short returns a recognisable prefix of a worker's id.
func short(id string) string { return id[:min(len(id), 6)] }
