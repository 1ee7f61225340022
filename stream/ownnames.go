package stream

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Refuse answers a refused request.
type Refuse func(w http.ResponseWriter, status int, why string)

// ownNames refuses requests that a browser sends for another site's page. They have another origin, or a host other than loopback, to which
// the site has pointed its own name (DNS rebinding).
func ownNames(h http.Handler, refuse Refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownHost(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("Host %.100q is no name of the loopback address, where this server listens: ask for "+
				"127.0.0.1 or localhost, and have a proxy send one of these", r.Host))
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
				refuse(w, http.StatusForbidden, fmt.Sprintf("Origin %.100q is another than this server's: ask for it from a page of its own, or send no Origin",
					origin))
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// ownHost reports whether a Host header names loopback. No site can redirect an address or localhost. A client without Host is no browser.
func ownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	return name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// onLoopback reports whether a listener is reachable from this machine only.
func onLoopback(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}
