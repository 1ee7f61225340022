package faults

import (
	"math/rand/v2"
	"time"

	"github.com/ranker-worker/ranker-worker/tools/faults/proxy"
)

// ways is how many workers of a group have ways of their own to every broker and to Redis; the next ones share theirs.
const ways = 3

// doors are proxies that misbehave together.
type doors []*proxy.Proxy

// newDoors makes a proxy for each way. Without a target they let nobody in yet.
func newDoors(target string) (d doors, err error) {
	for range ways {
		p, err := proxy.New(target)
		if err != nil {
			d.Close()
			return nil, err
		}
		d = append(d, p)
	}
	return d, nil
}

// of is the door of a worker's slot.
func (d doors) of(slot int) *proxy.Proxy { return d[slot%ways] }

func (d doors) each(do func(*proxy.Proxy)) {
	for _, p := range d {
		do(p)
	}
}

// The same as of one proxy.

func (d doors) SetTarget(target string)          { d.each(func(p *proxy.Proxy) { p.SetTarget(target) }) }
func (d doors) Refuse(on bool)                   { d.each(func(p *proxy.Proxy) { p.Refuse(on) }) }
func (d doors) SetDelay(t time.Duration)         { d.each(func(p *proxy.Proxy) { p.SetDelay(t) }) }
func (d doors) Silence(on bool)                  { d.each(func(p *proxy.Proxy) { p.Silence(on) }) }
func (d doors) Deafen(on bool)                   { d.each(func(p *proxy.Proxy) { p.Deafen(on) }) }
func (d doors) Cut(chance float64, r *rand.Rand) { d.each(func(p *proxy.Proxy) { p.Cut(chance, r) }) }
func (d doors) Heal()                            { d.each((*proxy.Proxy).Heal) }
func (d doors) Close()                           { d.each((*proxy.Proxy).Close) }
