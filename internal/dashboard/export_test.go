package dashboard

import "time"

// Tick reads the worker, as Run does each second.
func (b *Dashboard) Tick() { b.tick(time.Now()) }

// Page returns the present page.
func (b *Dashboard) Page() *Page { return combine(b.all(), b.history.sums(), 0) }
