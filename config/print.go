package config

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// Print writes the effective configuration in full, defaults included, as YAML that loads again. Secrets are masked.
func (c *Config) Print(w io.Writer) error {
	var top mapping
	top.add("kafka", c.Kafka.print())
	top.add("redis", c.Redis.print())
	var m mapping
	m.add("listen", text(c.HTTP.Listen))
	m.add("pprof", boolean(c.HTTP.Pprof))
	top.add("http", m.node(false))
	m = nil
	m.add("level", text(c.Log.Level))
	m.add("format", text(c.Log.Format))
	top.add("log", m.node(true))
	m = nil
	m.add("parking_time", text(formatDuration(c.Join.ParkingTime)))
	m.add("max_parked", integer(c.Join.MaxParked))
	m.add("max_parked_bytes", plain(formatSize(c.Join.MaxParkedBytes)))
	top.add("join", m.node(false))
	m = nil
	m.add("max_candidates", integer(c.Limits.MaxCandidates))
	m.add("max_record_bytes", plain(formatSize(int64(c.Limits.MaxRecordBytes))))
	m.add("checkpoint_interval", text(formatDuration(c.Limits.CheckpointInterval)))
	top.add("limits", m.node(false))
	m = nil
	for i := range c.Learners {
		m.add(c.Learners[i].Name, c.Learners[i].print())
	}
	top.add("learners", m.node(false))
	out, err := yaml.Dump(top.node(false))
	if err != nil {
		return fmt.Errorf("printing the configuration: %w", err)
	}
	_, err = w.Write(out)
	return err
}

func (k *Kafka) print() *yaml.Node {
	var m, topics, sasl mapping
	m.add("brokers", list(k.Brokers))
	m.add("group", text(k.Group))
	m.add("start", text(string(k.Start)))
	topics.add("impressions", text(k.Topics.Impressions))
	topics.add("selections", text(k.Topics.Selections))
	topics.add("payoffs", text(k.Topics.Payoffs))
	topics.add("rankings", text(k.Topics.Rankings))
	topics.add("dlq_suffix", text(k.Topics.DLQSuffix))
	m.add("topics", topics.node(false))
	m.add("tls", k.TLS.print())
	if k.SASL.Mechanism != "" {
		sasl.add("mechanism", text(string(k.SASL.Mechanism)))
		sasl.add("username", text(k.SASL.Username))
		sasl.password(k.SASL.Password, k.SASL.PasswordFile)
	}
	m.add("sasl", sasl.node(false))
	return m.node(false)
}

func (r *Redis) print() *yaml.Node {
	var m mapping
	if len(r.Addresses) == 1 && !r.Cluster {
		u := url.URL{Scheme: "redis", Host: r.Addresses[0], Path: "/" + strconv.Itoa(r.DB)}
		if r.TLS.Enabled {
			u.Scheme = "rediss"
		}
		m.add("url", text(u.String()))
	} else {
		m.add("addresses", list(r.Addresses))
	}
	m.add("cluster", boolean(r.Cluster))
	if r.Username != "" {
		m.add("username", text(r.Username))
	}
	m.password(r.Password, r.PasswordFile)
	m.add("wait_replicas", integer(r.WaitReplicas))
	m.add("tls", r.TLS.print())
	return m.node(false)
}

func (t *TLS) print() *yaml.Node {
	var m mapping
	if !t.Enabled {
		return m.node(true)
	}
	m.add("enabled", boolean(true))
	for _, f := range []struct{ key, value string }{{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}, {"server_name", t.ServerName}} {
		if f.value != "" {
			m.add(f.key, text(f.value))
		}
	}
	return m.node(false)
}

func (l *Learner) print() *yaml.Node {
	var m mapping
	m.add("default", boolean(l.Default))
	m.add("payoffs", text(string(l.Payoffs)))
	m.add("policy", text(string(l.Policy)))
	m.add("delay", text(string(l.Delay)))
	for _, f := range []struct {
		key   string
		value *yaml.Node
	}{
		{"radius", text(string(l.Radius))}, {"prior", l.Prior.print()}, {"sigma", l.printSigma()}, {"delta", plain(l.Delta.String())},
		{"max_instances", integer(l.MaxInstances)}, {"loss_index", text(string(l.LossIndex))}, {"eta", plain(l.Eta.String())},
		{"windows", l.Windows.print()},
	} {
		if !slices.Contains(idle(l), f.key) { // those would be warned of when read again
			m.add(f.key, f.value)
		}
	}
	span := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle,
		Content: []*yaml.Node{plain(formatFloat(l.PayoffRange.Min)), plain(formatFloat(l.PayoffRange.Max))}}
	m.add("payoff_range", span)
	m.add("payoff_horizon", text(formatDuration(l.PayoffHorizon)))
	if l.SelectionTimeout > 0 {
		m.add("selection_timeout", text(formatDuration(l.SelectionTimeout)))
	}
	if x := l.OnExpiry.Default; x != nil {
		var d mapping
		d.add("default", plain(formatFloat(*x)))
		m.add("on_expiry", d.node(true))
	} else {
		m.add("on_expiry", text("drop"))
	}
	m.add("aggregate", text(string(l.Aggregate)))
	m.add("utilities", text(string(l.Utilities)))
	m.add("seed", plain(strconv.FormatUint(l.Seed, 10)))
	return m.node(false)
}

// mapping gathers the keys and values of a YAML mapping.
type mapping []*yaml.Node

func (m *mapping) add(key string, value *yaml.Node) {
	*m = append(*m, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

func (m *mapping) password(secret Secret, file string) {
	if secret != "" {
		m.add("password", text(Mask))
	}
	if file != "" {
		m.add("password_file", text(file))
	}
}

// node is the mapping, on one line if flow is set or it is empty.
func (m mapping) node(flow bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: m}
	if flow || len(m) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

// text is a string of the configuration: quoted where YAML needs it, and with ${ kept literal.
func text(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: escape(s)}
}

// plain is a number or word that is never quoted.
func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

func integer(n int) *yaml.Node { return plain(strconv.Itoa(n)) }

func boolean(b bool) *yaml.Node { return plain(strconv.FormatBool(b)) }

func list(items []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
	for _, s := range items {
		n.Content = append(n.Content, text(s))
	}
	return n
}
