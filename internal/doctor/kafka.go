package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// brokers connects to each configured broker, and to each advertised one.
func (d *doctor) brokers(ctx context.Context) {
	const area = "kafka"
	tried := map[string]greeted{}
	d.greet(ctx, tried, d.cfg.Kafka.Brokers)
	for _, a := range d.cfg.Kafka.Brokers {
		d.reached = d.reached || tried[a].err == nil
	}
	for _, a := range d.cfg.Kafka.Brokers {
		switch err := tried[a].err; {
		case err == nil:
			d.add(OK, area, "%s answers, %s", a, d.how())
			d.lacks(a, tried[a].lacks)
		case errors.Is(err, task.ErrUnsupported):
			d.add(Fault, area, "%s is no broker for a worker: %v; Kafka 2.5 or later is", a, err)
		case d.reached:
			d.add(Warning, area, "%s: %v; the others of kafka.brokers answer", a, err)
		default:
			d.add(Fault, area, "%s: %v", a, err)
		}
	}
	if !d.reached {
		return
	}
	cluster, err := d.broker.Cluster(ctx)
	if err != nil {
		d.add(Fault, area, "the cluster does not say which brokers it has: %v", err)
		d.reached = false
		return
	}
	if name := product(cluster); name != "" {
		d.add(Warning, area, "this is %s: no test of ranker-worker runs on it; try failovers of its brokers first", name)
	}
	d.advertised(ctx, tried, cluster.Brokers)
}

// greeted is a broker's answer to Greet.
type greeted struct {
	lacks []broker.Lack
	err   error
}

func (d *doctor) lacks(address string, all []broker.Lack) {
	for _, l := range all {
		d.add(Warning, "kafka", "%s does not offer %s: %s", address, l.Request, l.Without)
	}
}

// products are services with Kafka's protocol, by the end of their brokers' names.
var products = []struct{ domain, name string }{
	{".servicebus.windows.net", "Azure Event Hubs"},
	{".warpstream.com", "WarpStream"},
	{".confluent.cloud", "Confluent Cloud"},
	{".amazonaws.com", "Amazon MSK"},
}

// product names the service or the software of a cluster that is not Apache Kafka; "" if nothing shows it.
func product(c broker.Cluster) string {
	if strings.HasPrefix(c.ID, "redpanda.") {
		return "Redpanda"
	}
	for _, b := range c.Brokers {
		host, _, _ := strings.Cut(b.Address, ":")
		for _, p := range products {
			if strings.HasSuffix(host, p.domain) {
				return p.name
			}
		}
	}
	return ""
}

// how describes the connections.
func (d *doctor) how() string {
	how := "in plaintext"
	if d.cfg.Kafka.TLS.Enabled {
		how = "by TLS"
	}
	switch a := d.cfg.Kafka.SASL; {
	case a.Mechanism == "":
		return how + ", without SASL"
	case a.Username == "":
		return how + fmt.Sprintf(", by SASL %s", a.Mechanism)
	default:
		return how + fmt.Sprintf(", as %s by SASL %s", a.Username, a.Mechanism)
	}
}

// greet connects to all addresses at once, and stores the results, with explained errors.
func (d *doctor) greet(ctx context.Context, tried map[string]greeted, addresses []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, a := range addresses {
		wg.Go(func() {
			lacks, err := d.broker.Greet(ctx, a)
			if err != nil && !errors.Is(err, task.ErrUnsupported) {
				err = app.ExplainKafka(ctx, d.cfg, a, err)
			}
			mu.Lock()
			defer mu.Unlock()
			tried[a] = greeted{lacks, err}
		})
	}
	wg.Wait()
}

// advertised connects to the brokers at their advertised addresses.
func (d *doctor) advertised(ctx context.Context, tried map[string]greeted, all []broker.Broker) {
	var others []string
	for _, b := range all {
		if _, done := tried[b.Address]; !done {
			others = append(others, b.Address)
		}
	}
	d.greet(ctx, tried, others)
	away := 0
	for _, b := range all {
		if err := tried[b.Address].err; err != nil {
			away++
			if slices.Contains(others, b.Address) {
				d.add(Fault, "kafka", "broker %d advertises %s, which cannot be reached from here: %v; set its advertised.listeners to an address that "+
					"can", b.ID, b.Address, err)
			}
		}
	}
	if away == 0 {
		d.add(OK, "kafka", "%s of the cluster answered at the advertised address, with the required versions", plural.N(len(all), "broker"))
	}
}

// needed are rights on topics, with the names of Kafka's ACLs.
type needed struct {
	operation kafka.ACLOperationType
	name      string
}

var (
	forInputs   = []needed{{kafka.ACLOperationTypeRead, "Read"}, {kafka.ACLOperationTypeDescribeConfigs, "DescribeConfigs"}}
	forRankings = append(slices.Clone(forInputs), needed{kafka.ACLOperationTypeWrite, "Write"})
	forLetters  = []needed{{kafka.ACLOperationTypeWrite, "Write"}, {kafka.ACLOperationTypeDescribeConfigs, "DescribeConfigs"}}
)

// rights examines this user's rights, if the cluster reports them.
func (d *doctor) rights(ctx context.Context) {
	if !d.reached {
		return
	}
	before := len(d.found)
	d.topicRights(ctx)
	d.groupRights(ctx)
	if d.fenceRights(ctx); len(d.found) == before {
		d.add(OK, "kafka", "groups and transactions are coordinated")
		d.add(OK, "rights", "this user has all rights of a worker on topics, group %s and its transactional ids", d.cfg.Kafka.Group)
	}
}

func (d *doctor) topicRights(ctx context.Context) {
	const area = "rights"
	denied, err := d.broker.Denied(ctx)
	if err != nil {
		d.add(Fault, area, "the cluster does not describe its topics: %v", err)
		return
	}
	for _, name := range denied {
		d.add(Fault, area, "topic %s is hidden from this user: %s", name, d.grant("Describe", "--topic "+name))
	}
	allowed, err := d.broker.TopicOperations(ctx)
	if err != nil {
		d.add(Fault, area, "the cluster does not report rights on its topics: %v", err)
		return
	}
	t := d.cfg.Kafka.Topics
	inputs := []string{t.Impressions, t.Payoffs}
	if t.HasSelections() {
		inputs = append(inputs, t.Selections)
	}
	d.missing(allowed, t.Rankings, forRankings)
	for _, name := range inputs {
		d.missing(allowed, name, forInputs)
		d.missing(allowed, t.DLQ(name), forLetters)
	}
}

func (d *doctor) missing(allowed map[string]broker.Operations, topic string, rights []needed) {
	have, seen := allowed[topic]
	for _, n := range rights {
		if may, known := have.Allow(n.operation); seen && known && !may {
			d.add(Fault, "rights", "no right %s on topic %s: %s", n.name, topic, d.grant(n.name, "--topic "+topic))
		}
	}
}

// grant returns the command that grants a right.
func (d *doctor) grant(operation, resource string) string {
	user, m := d.cfg.Kafka.SASL.Username, d.cfg.Kafka.SASL.Mechanism
	if user == "" || m == config.OAuthBearer { // named by its token
		user = "THE-USER-OF-THIS-CLIENT"
	}
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation %s %s", d.cfg.Kafka.Brokers[0], user,
		operation, resource)
}

func (d *doctor) groupRights(ctx context.Context) {
	group := d.cfg.Kafka.Group
	g, err := retried(ctx, d.broker.Group)
	switch may, known := g.Operations.Allow(kafka.ACLOperationTypeRead); {
	case errors.Is(err, kafka.GroupAuthorizationFailed), err == nil && known && !may:
		d.add(Fault, "rights", "no right Read on group %s: %s", group, d.grant("Read", "--group "+group))
	case err != nil:
		d.add(Fault, "rights", "the group's coordinator does not answer: %v; is __consumer_offsets healthy?", err)
	}
}

// fenceRights asks about partition 0's transactional id; the others have the same prefix.
func (d *doctor) fenceRights(ctx context.Context) {
	prefix := d.cfg.Kafka.Group + "-"
	_, err := retried(ctx, func(ctx context.Context) (any, error) { return nil, d.broker.Partition(0).MayFence(ctx) })
	switch {
	case errors.Is(err, kafka.TransactionalIDAuthorizationFailed):
		d.add(Fault, "rights", "no right Write on transactional ids that begin with %s: %s", prefix,
			d.grant("Write", "--transactional-id "+prefix+" --resource-pattern-type prefixed"))
	case err != nil:
		d.add(Fault, "kafka", "the cluster has no coordinator for transactions now, without which no worker begins: %v; is __transaction_state "+
			"healthy, with at least as many copies as transaction.state.log.min.isr?", err)
	}
}
