package stream

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"

	kafka "github.com/segmentio/kafka-go"
)

// balancerProtocol is the balancer's name in the group protocol. All members must support it.
const balancerProtocol = "ranker-copartition"

// Balancer assigns partition numbers to the members of a group: the owner of number p owns p of every topic. Loads differ by at most one,
// and as few numbers as possible move, since a move costs an acquire. The result does not depend on the order of members or partitions.
//
// If topics' partition counts differ, only the numbers that every topic has are
// assigned, and the mismatch is reported. If a topic is missing, no number has an owner.
//
// Members send the numbers they owned as user data. A member that slept through a generation may claim numbers of another: of two claims, that
// of the newer generation wins.
type Balancer struct {
	onMismatch func(counts map[string]int)

	mu    sync.Mutex
	owned claim
}

var _ kafka.GroupBalancer = (*Balancer)(nil)

// NewBalancer returns a balancer. onMismatch, if not nil, is called by the group's leader with the topics' partition counts if they differ.
func NewBalancer(onMismatch func(counts map[string]int)) *Balancer {
	return &Balancer{onMismatch: onMismatch}
}

// Own records the numbers that this member owns in a generation: its claim at the next rebalance.
func (b *Balancer) Own(generation int64, numbers []int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owned = claim{generation, slices.Clone(numbers)}
}

// ProtocolName implements kafka.GroupBalancer.
func (b *Balancer) ProtocolName() string { return balancerProtocol }

// UserData implements kafka.GroupBalancer: it returns this member's claim.
func (b *Balancer) UserData() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return json.Marshal(b.owned)
}

// AssignGroups implements kafka.GroupBalancer.
func (b *Balancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	topics := map[string]map[int32]bool{} // numbers of each subscribed topic
	var claimants []claimant
	for _, m := range members {
		if len(m.Topics) == 0 {
			continue // its numbers would not be read
		}
		for _, topic := range m.Topics {
			if topics[topic] == nil {
				topics[topic] = map[int32]bool{}
			}
		}
		var c claim
		if json.Unmarshal(m.UserData, &c) != nil {
			c = claim{} // of another release, or none
		}
		claimants = append(claimants, claimant{m.ID, c})
	}
	for _, p := range partitions {
		if numbers := topics[p.Topic]; numbers != nil && p.ID >= 0 && p.ID <= math.MaxInt32 {
			numbers[int32(p.ID)] = true
		}
	}
	b.reportMismatch(topics)
	owners := divide(claimants, commonNumbers(topics))
	all := make(kafka.GroupMemberAssignments, len(members))
	for _, m := range members {
		byTopic := make(map[string][]int, len(m.Topics))
		for _, topic := range m.Topics {
			numbers := make([]int, 0, len(owners[m.ID]))
			for _, p := range owners[m.ID] {
				numbers = append(numbers, int(p))
			}
			byTopic[topic] = numbers
		}
		all[m.ID] = byTopic
	}
	return all
}

func (b *Balancer) reportMismatch(topics map[string]map[int32]bool) {
	counts := make(map[string]int, len(topics))
	differ, first := false, -1
	for topic, numbers := range topics {
		counts[topic] = len(numbers)
		if first < 0 {
			first = len(numbers)
		}
		differ = differ || len(numbers) != first
	}
	if differ && b.onMismatch != nil {
		b.onMismatch(counts)
	}
}

// commonNumbers returns the numbers that every topic has, ascending.
func commonNumbers(topics map[string]map[int32]bool) []int32 {
	var numbers []int32
	for _, first := range topics {
		numbers = slices.Sorted(maps.Keys(first))
		break
	}
	for _, has := range topics {
		numbers = slices.DeleteFunc(numbers, func(p int32) bool { return !has[p] })
	}
	return numbers
}

type claimant struct {
	id    string
	claim claim
}

// divide assigns an owner to each number. With f = ⌊numbers/members⌋, each member gets f or f+1,
// and numbers mod members of them f+1. A member that owned k keeps min(k, its share): the most
// that a balanced division can leave in place, if members with k > f get the larger shares first.
func divide(members []claimant, numbers []int32) map[string][]int32 {
	members = slices.SortedFunc(slices.Values(members), func(a, b claimant) int { return cmp.Compare(a.id, b.id) })
	members = slices.CompactFunc(members, func(a, b claimant) bool { return a.id == b.id })
	if len(members) == 0 {
		return nil
	}
	previous := previousOwners(members, numbers)
	owners := make(map[string][]int32, len(members))
	for _, p := range numbers {
		if id, ok := previous[p]; ok {
			owners[id] = append(owners[id], p)
		}
	}
	share := shares(members, owners, len(numbers))
	var free []int32
	for _, m := range members {
		if keep := share[m.id]; len(owners[m.id]) > keep {
			free = append(free, owners[m.id][keep:]...)
			owners[m.id] = owners[m.id][:keep:keep]
		}
	}
	for _, p := range numbers {
		if _, ok := previous[p]; !ok {
			free = append(free, p)
		}
	}
	slices.Sort(free)
	for _, m := range members {
		n := share[m.id] - len(owners[m.id])
		owners[m.id] = append(owners[m.id], free[:n]...)
		free = free[n:]
		slices.Sort(owners[m.id])
	}
	return owners
}

// previousOwners returns each number's owner by the newest claim; of equally new ones, by the lesser member id.
func previousOwners(members []claimant, numbers []int32) map[int32]string {
	exists := make(map[int32]bool, len(numbers))
	for _, p := range numbers {
		exists[p] = true
	}
	owner, newest := map[int32]string{}, map[int32]int64{}
	for _, m := range members {
		for _, p := range m.claim.Numbers {
			if _, claimed := owner[p]; exists[p] && (!claimed || m.claim.Generation > newest[p]) {
				owner[p], newest[p] = m.id, m.claim.Generation
			}
		}
	}
	return owner
}

// shares returns how many numbers each member will own.
func shares(members []claimant, owned map[string][]int32, numbers int) map[string]int {
	least, larger := numbers/len(members), numbers%len(members)
	share := make(map[string]int, len(members))
	for _, m := range members {
		share[m.id] = least
	}
	for _, wants := range []bool{true, false} {
		for _, m := range members {
			if larger > 0 && len(owned[m.id]) > least == wants {
				share[m.id]++
				larger--
			}
		}
	}
	return share
}

// claim is the numbers that a member owned in a generation. The zero value claims nothing.
type claim struct {
	Generation int64   `json:"generation"`
	Numbers    []int32 `json:"numbers"`
}
