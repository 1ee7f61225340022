package faults

import (
	"math/rand/v2"
	"time"

	"github.com/ranker-worker/ranker-worker/tools/faults/proxy"
)

// proxySlots is the number of workers of a group with proxies of their own to every server; further workers share them.
const proxySlots = 3

// proxies are proxies that misbehave together.
type proxies []*proxy.Proxy

// newProxies makes a proxy for each proxy slot. Without a target they refuse connections.
func newProxies(target string) (d proxies, err error) {
	for range proxySlots {
		p, err := proxy.New(target)
		if err != nil {
			d.Close()
			return nil, err
		}
		d = append(d, p)
	}
	return d, nil
}

func (d proxies) of(slot int) *proxy.Proxy { return d[slot%proxySlots] }

func (d proxies) each(do func(*proxy.Proxy)) {
	for _, p := range d {
		do(p)
	}
}

// Methods of proxy.Proxy, applied to all.

func (d proxies) SetTarget(target string)          { d.each(func(p *proxy.Proxy) { p.SetTarget(target) }) }
func (d proxies) Refuse(on bool)                   { d.each(func(p *proxy.Proxy) { p.Refuse(on) }) }
func (d proxies) SetDelay(t time.Duration)         { d.each(func(p *proxy.Proxy) { p.SetDelay(t) }) }
func (d proxies) Silence(on bool)                  { d.each(func(p *proxy.Proxy) { p.Silence(on) }) }
func (d proxies) Deafen(on bool)                   { d.each(func(p *proxy.Proxy) { p.Deafen(on) }) }
func (d proxies) Cut(chance float64, r *rand.Rand) { d.each(func(p *proxy.Proxy) { p.Cut(chance, r) }) }
func (d proxies) Heal()                            { d.each((*proxy.Proxy).Heal) }
func (d proxies) Close()                           { d.each((*proxy.Proxy).Close) }
