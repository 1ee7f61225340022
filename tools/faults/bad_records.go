package faults

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// badRecord makes a record that no tidy platform sends.
type badRecord func(rng *rand.Rand, p *producer) *kgo.Record

var badRecords = map[string]badRecord{
	"malformed records": func(rng *rand.Rand, p *producer) *kgo.Record {
		bad := []string{"", "{", "null", "[]", `{"impression_id":7}`, "\xff\xfe", `{"impression_id":"x","impression_id":"y"}`,
			`{"impression_id":"KEY","payoff":1e999}`, `{"impression_id":"KEY","candidates":[]}`}
		id := p.strangeID(rng)
		value := bytes.ReplaceAll([]byte(bad[rng.IntN(len(bad))]), []byte("KEY"), id)
		return p.record(event.Topic(rng.IntN(event.Inputs)), id, value)
	},
	"oversized records": func(rng *rand.Rand, p *producer) *kgo.Record {
		id := p.strangeID(rng)
		value := fmt.Appendf(nil, `{"impression_id":%q,"x":"%s"}`, id, bytes.Repeat([]byte("x"), maxRecordBytes+rng.IntN(20_000)))
		return p.record(event.Topic(rng.IntN(event.Inputs)), id, value)
	},
	"repeated impression ids": func(rng *rand.Rand, p *producer) *kgo.Record {
		k := p.earlier(rng, 20_000)
		im := event.Impression{ID: []byte(simulate.ImpressionID(k)), HasUtilities: true, Candidates: []event.Candidate{{Item: []byte("other"), Utility: 1}}}
		return p.record(event.Impressions, im.ID, event.AppendImpression(nil, &im))
	},
	"early payoffs": func(rng *rand.Rand, p *producer) *kgo.Record {
		k := p.next + len(p.t.instructions)*(1+rng.IntN(2000)) // of an impression to come
		im := p.t.population.Impression(k)
		r := event.Payoff{ID: []byte(im.ID), Payoff: rng.Float64(), Item: []byte(im.Candidates[0].Item), EventID: []byte("early-" + strconv.Itoa(k))}
		return p.record(event.Payoffs, r.ID, event.AppendPayoff(nil, &r))
	},
	"late payoffs": func(rng *rand.Rand, p *producer) *kgo.Record {
		return p.payoff(rng, 200_000, time.Now().UnixMilli())
	},
	"duplicate payoffs": func(rng *rand.Rand, p *producer) *kgo.Record {
		return p.payoff(rng, 5_000, time.Now().UnixMilli())
	},
	"orphans": func(rng *rand.Rand, p *producer) *kgo.Record {
		id := p.strangeID(rng)
		r := event.Payoff{ID: id, Payoff: 1, Item: []byte("x")}
		if rng.IntN(2) == 0 {
			return p.record(event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: id, Item: []byte("x")}))
		}
		return p.record(event.Payoffs, id, event.AppendPayoff(nil, &r))
	},
	"records an hour early": func(rng *rand.Rand, p *producer) *kgo.Record {
		r := p.payoff(rng, 2_000, time.Now().Add(time.Hour).UnixMilli())
		r.Timestamp = time.Now().Add(time.Hour)
		return r
	},
	"records an hour late": func(rng *rand.Rand, p *producer) *kgo.Record {
		r := p.payoff(rng, 2_000, time.Now().Add(-time.Hour).UnixMilli())
		r.Timestamp = time.Now().Add(-time.Hour)
		return r
	},
	"records of 2099": func(rng *rand.Rand, p *producer) *kgo.Record {
		far := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
		r := p.payoff(rng, 2_000, far.UnixMilli())
		r.Timestamp = far
		return r
	},
	"payoffs of another item or out of range": func(rng *rand.Rand, p *producer) *kgo.Record {
		k := p.earlier(rng, 2_000)
		r := event.Payoff{ID: []byte(simulate.ImpressionID(k)), Payoff: 17 * rng.Float64(), Item: []byte("nowhere")}
		return p.record(event.Payoffs, r.ID, event.AppendPayoff(nil, &r))
	},
	"impressions for nobody": func(rng *rand.Rand, p *producer) *kgo.Record {
		im := event.Impression{ID: p.strangeID(rng), Learner: []byte("nobody"), Candidates: []event.Candidate{{Item: []byte("a")}}}
		return p.record(event.Impressions, im.ID, event.AppendImpression(nil, &im))
	},
}

func (p *producer) strangeID(rng *rand.Rand) []byte {
	return strconv.AppendUint([]byte("odd-"), rng.Uint64(), 36)
}

// earlier returns one of the last n impressions of this producer.
func (p *producer) earlier(rng *rand.Rand, n int) int {
	k := p.last - len(p.t.instructions)*rng.IntN(n/len(p.t.instructions))
	return max(p.which, k)
}

// payoff makes another payoff for one of the last n impressions.
func (p *producer) payoff(rng *rand.Rand, n int, at event.Millis) *kgo.Record {
	k := p.earlier(rng, n)
	im := p.t.population.Impression(k)
	item := im.Candidates[rng.IntN(len(im.Candidates))].Item
	r := event.Payoff{ID: []byte(im.ID), Payoff: rng.Float64(), Item: []byte(item), Time: at, HasTime: true, EventID: []byte("e-" + strconv.Itoa(k))}
	return p.record(event.Payoffs, r.ID, event.AppendPayoff(nil, &r))
}
