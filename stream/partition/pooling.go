package partition

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// prepare acts upon event time if it has moved, and reports whether it has. It precedes all decisions. Experiments move to each epoch.
func (m *Machine) prepare() (acted bool) {
	if m.epoch == 0 || len(m.trials.all) > 0 {
		m.follow()
	}
	if !m.behind {
		return false
	}
	m.behind = false
	m.advance(m.time.watermark)
	return true
}

// follow moves the machine to the present epoch, and records that for a replay. It precedes decisions, and seals that store an estimate.
// Nothing else that lasts depends on the epoch, so skipped epochs leave no trace.
func (m *Machine) follow() {
	k := m.cfg.Pooled
	if k == nil || m.epoch == k.epoch.Number {
		return
	}
	before := m.epoch
	m.epoch, m.shown = k.epoch.Number, k.epoch.Number
	m.turned(before)
	m.refresh()
	m.trials.takeIn()
}

// show moves learners to the present epoch for status. Decisions do not depend on it: in a replay nobody looks.
func (m *Machine) show() {
	k := m.cfg.Pooled
	switch {
	case len(m.trials.all) > 0:
		m.follow()
	case k != nil && m.shown != k.epoch.Number:
		m.shown = k.epoch.Number
		m.refresh()
	}
}

func (m *Machine) refresh() {
	for _, l := range m.learners {
		if l.sharing != nil && !l.gone {
			m.cfg.Pooled.refresh(l, m.cfg.Partition)
		}
	}
}

// sealsEpoch reports whether a seal stores estimates of all partitions, or precedes a snapshot of sources. A replay then needs to know the
// epoch.
func (m *Machine) sealsEpoch() bool {
	return !m.seen.on || m.seen.standsNext() || slices.ContainsFunc(m.learners, func(l *learner) bool {
		return l.sharing != nil && !l.gone && l.sharing.Unstored()
	})
}

// turned records the epochs entered: those that estimates are from, then the present one.
func (m *Machine) turned(before uint64) {
	k := m.cfg.Pooled
	if !m.seen.on || len(k.wholes)+len(m.trials.all) == 0 {
		return
	}
	for at := before; at < k.epoch.Number; {
		next := &k.epoch
		for n := range k.estimates {
			if last := &k.estimates[n].last; last.Number > at && last.Number < next.Number {
				next = last
			}
		}
		at = next.Number
		m.seen.turn(next.Sources, k.lastAt(at))
	}
}

// SetSource takes in a published field in place of its earlier value. Learners that share a PooledState, impossible fields, and
// unconfigured learners are ignored: the sender may run another version. Items must precede the fields about them.
func (m *Machine) SetSource(source int32, pub *Published) {
	if pub.learner == "" && pub.hash == ExperimentsHash {
		if m.cfg.Pooled == nil {
			m.trials.published.set(source, string(pub.field), pub.value)
			m.trials.takeIn()
		}
		return
	}
	l := m.byName[pub.learner]
	if l == nil || l.gone || l.sharing != nil || len(pub.field) == 0 {
		return
	}
	m.noteActed(m.prepare()) // items may be over by now
	if pub.hash == ItemsHash {
		m.setSourceItem(l, source, pub)
		return
	}
	at := slices.IndexFunc(l.pooled, func(p delay.Pooled) bool { return p.Hash == pub.hash })
	if at >= 0 {
		l.delay.SetSourceField(source, pub.hash, pub.field, pub.value, l.translator(pub))
	}
}

func (m *Machine) setSourceItem(l *learner, source int32, pub *Published) {
	if pub.sums.Check() != nil {
		return
	}
	process, until := pub.about.process[0], l.items.retention.period(pub.until)
	_, known := l.items.number(process)
	if !known && (pub.gone || until > 0 && until <= l.items.retention.over(m.time.watermark)) {
		return // it has ended here, too
	}
	ours := l.intern(process, pub.field, &m.segments)
	l.items.carry(process, until)
	if !known && until == 0 { // its source keeps items for ever
		l.carried(pub.about.process[:1], m.time.watermark, 0)
	}
	l.grow()
	l.delay.SetSource(source, ours, pub.sums)
}

func (l *learner) translator(pub *Published) delay.Translate {
	return func(theirs policy.Item) (ours policy.Item, ok bool) {
		process, ok := pub.about.inProcess(theirs)
		if !ok {
			return 0, false
		}
		return l.items.number(process)
	}
}
