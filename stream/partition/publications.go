package partition

import "github.com/ranker-worker/ranker-worker/state"

// publications knows whether the pooled state has read those of this partition (delay.Recorder.Known). It awaits one segment at a time.
type publications struct {
	awaited uint64      // the segment; 0 for loaded state
	stored  bool        // it is stored
	at      state.Fence // the checkpoint that has stored it
	known   bool        // the pooled state has read it
}

// look finds out whether the awaited segment is known.
func (p *publications) look(k *PooledState, partition int32) {
	p.known = false
	if k == nil || !p.stored {
		return
	}
	at, whole := k.At(partition)
	p.known = whole && at.Token == p.at.Token && at.Seq >= p.at.Seq
}

// saved notes that all segments up to one are stored.
func (p *publications) saved(segment uint64, at state.Fence) {
	if !p.stored && segment >= p.awaited {
		p.stored, p.at = true, at
	}
}

// sealed awaits this segment if the one awaited is known.
func (p *publications) sealed(segment uint64) {
	if p.known {
		p.awaited, p.stored = segment, false
	}
}
