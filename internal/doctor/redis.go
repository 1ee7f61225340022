package doctor

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

func (d *doctor) redis(ctx context.Context) {
	const area = "redis"
	all, err := d.store.Examine(ctx, d.now)
	if err != nil {
		d.add(Fault, area, "%v", err)
		return
	}
	d.servers = all
	for i := range all {
		d.server(&all[i])
	}
	replicas := 0
	for i := range all {
		n, _ := strconv.Atoi(all[i].Info["connected_slaves"])
		if i == 0 || n < replicas {
			replicas = n
		}
	}
	if want := d.cfg.Redis.WaitReplicas; replicas < want {
		d.add(Fault, area, "a master has %s, and redis.wait_replicas is %d: no checkpoint would count; add replicas, or lower the setting",
			plural.N(replicas, "replica"), want)
	}
}

func (d *doctor) server(s *redisstore.Server) {
	const area = "redis"
	before := len(d.found)
	if s.Fault != nil {
		d.add(Fault, area, "%s: %v", s.Address, s.Fault)
	}
	d.version(s)
	d.memory(s)
	d.persistence(s)
	d.refused(s)
	if len(d.found) > before {
		return
	}
	what := "Redis " + s.Info["redis_version"]
	if s.Info["redis_version"] == "" {
		what = "a server without a version"
	}
	how := "in plaintext"
	if d.cfg.Redis.TLS.Enabled {
		how = "by TLS"
	}
	d.add(OK, area, "%s: %s, reached %s, evicts nothing, persists its data, and carries out a worker's commands; replicas: %s", s.Address, what, how,
		orUnknown(s.Info["connected_slaves"]))
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func (d *doctor) version(s *redisstore.Server) {
	version := s.Info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < 7 {
		d.add(Warning, "redis", "%s: version %s; workers are tested on 7 or later", s.Address, version)
	}
}

// memory warns before memory runs out.
func (d *doctor) memory(s *redisstore.Server) {
	most, _ := strconv.ParseInt(s.Info["maxmemory"], 10, 64)
	used, _ := strconv.ParseInt(s.Info["used_memory"], 10, 64)
	if most > 0 && used > most*8/10 {
		d.add(Warning, "redis", "%s: %d of %d bytes of maxmemory are used: give it more (CONFIG SET maxmemory, and in redis.conf), or workers will wait",
			s.Address, used, most)
	}
}

// persistence examines how much state a restart of the server would lose.
func (d *doctor) persistence(s *redisstore.Server) {
	if s.Info["redis_version"] == "" {
		return
	}
	const remedy = "CONFIG SET appendonly yes, and in redis.conf"
	switch {
	case s.Info["aof_enabled"] == "1" && s.Info["aof_last_write_status"] == "err":
		d.add(Fault, "redis", "%s: it cannot write its append-only file: see to its disk", s.Address)
	case s.Info["rdb_last_bgsave_status"] == "err":
		d.add(Fault, "redis", "%s: its last dump failed: see to its disk and its log", s.Address)
	case s.Info["aof_enabled"] == "1":
	case s.SaveKnown && s.Save == "":
		d.add(Warning, "redis", "%s: it keeps nothing on disk (appendonly no, save \"\"): a restart loses all that is learned and pending; %s", s.Address, remedy)
	default:
		d.add(Warning, "redis", "%s: it keeps dumps only (appendonly no): a restart goes back to the last one, and later records are replayed from Kafka; %s",
			s.Address, remedy)
	}
}

// refused reports a worker's commands that the server refuses this user, or refuses at present.
func (d *doctor) refused(s *redisstore.Server) {
	var denied []string
	others := map[string]bool{}
	for _, r := range s.Refused {
		if redis.HasErrorPrefix(r.Err, "NOPERM") {
			denied = append(denied, "+"+r.Command)
		} else if text := r.Err.Error(); !others[text] {
			others[text] = true
			d.add(Fault, "redis", "%s: writing would fail: %s", s.Address, text)
		}
	}
	if len(denied) > 0 {
		user := d.cfg.Redis.Username
		if user == "" {
			user = "default"
		}
		d.add(Fault, "redis", "%s: user %s lacks rights: ACL SETUSER %s ~{%s:* %s", s.Address, user, user, d.cfg.Kafka.Group, strings.Join(denied, " "))
	}
}
