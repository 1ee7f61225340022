package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// checkRedis reads redis.url, and checks it with its neighbours.
func (d *decoder) checkRedis(s *section, r *Redis) {
	s.checkPassword()
	e, hasURL := s.text("url")
	switch {
	case s.has("url") && s.has("addresses"):
		s.fault("addresses", "redis.url is set too; only one can be used")
		return
	case hasURL:
		d.redisURL(s, e, r)
	case !s.has("url") && !s.has("addresses"):
		s.missing("url", noRedis)
	}
	d.checkOpenness(s, r)
}

// redisURL parses redis.url. Its messages never show the URL, which may hold a password.
func (d *decoder) redisURL(s *section, e expansion, r *Redis) {
	scheme, _, _ := strings.Cut(e.text, "://")
	u, err := url.Parse(e.text)
	switch {
	case scheme != "redis" && scheme != "rediss":
		s.fault("url", "must begin with redis:// or rediss:// (TLS)")
		return
	case err != nil:
		s.fault("url", "is not a URL; a password with special characters is better given as redis.password")
		return
	case u.RawQuery != "" || u.Fragment != "":
		s.fault("url", "settings after ? or # are not used here; they are keys of redis (special characters of a password: use redis.password)")
		return
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = "6379"
	}
	address := net.JoinHostPort(host, port)
	if checkAddress(address, false) != nil {
		s.fault("url", "has no valid host and port")
		return
	}
	r.Addresses = []string{address}
	if path := strings.Trim(u.Path, "/"); path != "" {
		db, err := strconv.Atoi(path)
		if err != nil || db < 0 || db > mostDatabase {
			s.fault("url", "must end in the number of a database, such as /0")
			return
		}
		if s.has("db") && db != r.DB {
			s.fault("db", "redis.url names database %d", db)
		}
		r.DB = db
	}
	d.redisUser(s, e, u, r)
	if scheme == "rediss" {
		if s.d.bad[s.join("tls.enabled")] || r.TLS.Enabled {
			return
		}
		if _, set := d.places[s.join("tls.enabled")]; set {
			d.fault(s.join("tls.enabled"), d.places[s.join("tls.enabled")], "is false, but redis.url begins with rediss://")
		}
		r.TLS.Enabled = true
	} else if r.TLS.Enabled {
		s.fault("tls", "is set, but redis.url begins with redis://; write rediss://")
	}
}

func (d *decoder) redisUser(s *section, e expansion, u *url.URL, r *Redis) {
	if name := u.User.Username(); name != "" {
		if s.has("username") {
			s.fault("username", "redis.url names a user too; only one can be used")
		}
		r.Username = name
	}
	password, _ := u.User.Password()
	if password == "" {
		return
	}
	for _, key := range []string{"password", "password_file"} {
		if s.has(key) {
			s.fault(key, "redis.url has a password too; only one can be used")
		}
	}
	if e.references == 0 && password != Mask {
		s.warn("url", "the password stands in the file; use ${VAR}, or redis.password_file")
	}
	r.Password = Secret(password)
}

// checkOpenness checks which settings go together, and warns of a server that others can reach.
func (d *decoder) checkOpenness(s *section, r *Redis) {
	hasPassword := r.Password != "" || r.PasswordFile != ""
	if len(r.Addresses) > 1 && !r.Cluster && s.ok("cluster") {
		s.fault("addresses", "several addresses need cluster: true")
	}
	if r.Cluster && r.DB != 0 {
		s.fault("cluster", "a cluster has database 0 only, not %d", r.DB)
	}
	if !s.ok("url", "addresses", "password", "password_file", "tls") {
		return
	}
	if r.Username != "" && !hasPassword {
		s.fault("username", "needs a password")
	}
	key := "url"
	if s.has("addresses") {
		key = "addresses"
	}
	switch {
	case allLoopback(r.Addresses):
	case !hasPassword:
		s.warn(key, "no password, and Redis is not on this machine: anybody who reaches it can change learned state")
	case !r.TLS.Enabled:
		s.warn(key, "the password goes readable over the network; rediss:// encrypts")
	}
}
