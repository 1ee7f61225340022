package partition

import (
	"slices"
)

// prepare acts upon event time if it has moved, and reports whether it has. It precedes all decisions and feedback.
func (m *Machine) prepare() (acted bool) {
	if m.epoch == 0 || m.eachEpoch() {
		m.follow()
	}
	if !m.behind {
		return false
	}
	m.behind = false
	m.advance(m.time.watermark)
	return true
}

// eachEpoch reports whether the machine moves to each epoch, for experiments and for learners whose state depends on it.
func (m *Machine) eachEpoch() bool { return len(m.trials.all) > 0 || m.byEpoch }

// follow moves the machine to the present epoch, and records that for a replay. It precedes decisions, and seals that store an estimate.
// Nothing else that lasts depends on the epoch, so skipped epochs leave no trace.
func (m *Machine) follow() {
	k := m.cfg.Pooled
	if k == nil || m.epoch == k.epoch.Number {
		return
	}
	before := m.epoch
	m.epoch = k.epoch.Number
	m.turned(before)
	m.refresh() // also where show has: that is not recorded
	m.trials.takeIn()
}

// Stand brings learners to the state of a snapshot of sources (SeenStand). A replay may begin an epoch for it, so owners refresh, too.
func (m *Machine) Stand() {
	if m.cfg.Pooled == nil {
		return
	}
	m.follow()
	m.refresh()
}

// show moves learners to the present epoch for status. Decisions do not depend on it: in a replay nobody looks.
func (m *Machine) show() {
	k := m.cfg.Pooled
	switch {
	case len(m.trials.all) > 0:
		m.follow()
	case k != nil && m.refreshed != k.epoch.Number:
		m.refresh()
	}
}

// refresh moves learners to the present epoch.
func (m *Machine) refresh() {
	m.refreshed = m.cfg.Pooled.epoch.Number
	for _, l := range m.learners {
		if !l.gone {
			m.cfg.Pooled.refresh(l, m.cfg.Partition)
		}
	}
}

// sealsEpoch reports whether a seal stores estimates of all partitions, or precedes a snapshot of sources. A replay then needs to know the
// epoch.
func (m *Machine) sealsEpoch() bool {
	return !m.seen.on || m.seen.standsNext() || m.cfg.Pooled != nil && slices.ContainsFunc(m.learners, func(l *learner) bool {
		return !l.gone && l.delay.Unstored()
	})
}

// turned records the epochs entered: those that estimates are from, then the present one.
func (m *Machine) turned(before uint64) {
	k := m.cfg.Pooled
	if !m.seen.on || len(k.globals)+len(m.trials.all) == 0 {
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
