package stream

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var threeTopics = []string{"impressions", "selections", "payoffs"}

func partitionsOf(topics []string, n int) []kafka.Partition {
	var all []kafka.Partition
	for _, topic := range topics {
		for p := range n {
			all = append(all, kafka.Partition{Topic: topic, ID: p})
		}
	}
	return all
}

func encoded(c claim) []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return b
}

func member(id string, topics []string, c claim) kafka.GroupMember {
	return kafka.GroupMember{ID: id, Topics: topics, UserData: encoded(c)}
}

// numbersOf checks that a member's topics have all been treated alike, and returns its numbers.
func numbersOf(t require.TestingT, got kafka.GroupMemberAssignments, id string, topics []string) []int {
	require.Contains(t, got, id)
	require.Len(t, got[id], len(topics))
	for _, topic := range topics {
		require.Equal(t, got[id][topics[0]], got[id][topic], "member %s, topic %s", id, topic)
	}
	return got[id][topics[0]]
}

// drawMembers draws members with claims of any age, which may overlap, and may name numbers that do not exist.
func drawMembers(t *rapid.T, numbers, most int) []kafka.GroupMember {
	var members []kafka.GroupMember
	for i := range rapid.IntRange(1, most).Draw(t, "members") {
		owned := rapid.SliceOfDistinct(rapid.Int32Range(0, int32(numbers)+1), rapid.ID[int32]).Draw(t, "owned")
		members = append(members, member(fmt.Sprintf("m%02d", i), threeTopics,
			claim{rapid.Int64Range(0, 3).Draw(t, "generation"), owned}))
	}
	return members
}

func TestEachNumberHasOneOwnerOverAllTopicsAndLoadsDifferByOneAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "numbers")
		members := drawMembers(t, n, 12)
		got := NewBalancer(nil).AssignGroups(members, partitionsOf(threeTopics, n))
		owner := map[int]string{}
		least, most := n, 0
		for _, m := range members {
			numbers := numbersOf(t, got, m.ID, threeTopics)
			for _, p := range numbers {
				require.NotContains(t, owner, p)
				owner[p] = m.ID
			}
			least, most = min(least, len(numbers)), max(most, len(numbers))
		}
		require.Len(t, owner, n)
		require.LessOrEqual(t, most-least, 1)
	})
}

func TestAssignmentDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "numbers")
		members, partitions := drawMembers(t, n, 6), partitionsOf(threeTopics, n)
		want := NewBalancer(nil).AssignGroups(members, partitions)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		r.Shuffle(len(partitions), func(i, j int) { partitions[i], partitions[j] = partitions[j], partitions[i] })
		require.Equal(t, want, NewBalancer(nil).AssignGroups(members, partitions))
	})
}

// leastMoved tries every balanced assignment: the oracle.
func leastMoved(previous map[int32]string, numbers int, ids []string) int {
	best, load := numbers+1, make([]int, len(ids))
	var try func(p, moved int)
	try = func(p, moved int) {
		if p == numbers {
			if slices.Max(load)-slices.Min(load) <= 1 {
				best = min(best, moved)
			}
			return
		}
		for i, id := range ids {
			load[i]++
			m := moved
			if was, ok := previous[int32(p)]; ok && was != id {
				m++
			}
			try(p+1, m)
			load[i]--
		}
	}
	try(0, 0)
	return best
}

func TestAsFewNumbersMoveAsBalanceAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "numbers")
		members := drawMembers(t, n, 4)
		got := NewBalancer(nil).AssignGroups(members, partitionsOf(threeTopics, n))
		// Previous owners, computed plainly: the newest claim, then the lesser id.
		previous, ids := map[int32]string{}, []string{}
		for generation := int64(3); generation >= 0; generation-- {
			for _, m := range members {
				var c claim
				require.NoError(t, json.Unmarshal(m.UserData, &c))
				for _, p := range c.Numbers {
					if _, taken := previous[p]; c.Generation == generation && !taken && int(p) < n {
						previous[p] = m.ID
					}
				}
			}
		}
		moved := 0
		for _, m := range members {
			ids = append(ids, m.ID)
			for _, p := range numbersOf(t, got, m.ID, threeTopics) {
				if was, ok := previous[int32(p)]; ok && was != m.ID {
					moved++
				}
			}
		}
		require.Equal(t, leastMoved(previous, n, ids), moved)
	})
}

// In a group whose members come and go, a member that stays keeps its numbers as far as balance allows.
func TestMembersJoiningAndLeavingMoveNoMoreThanTheirShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 24).Draw(t, "numbers")
		balancers, next := map[string]*Balancer{}, 0
		owned := map[int]string{}
		for generation := range rapid.IntRange(2, 8).Draw(t, "generations") {
			before := len(balancers)
			joins := rapid.IntRange(0, 2).Draw(t, "joins")
			if before == 0 {
				joins++
			}
			leaves := 0
			for id := range balancers {
				if joins == 0 && before > 1 && leaves == 0 {
					delete(balancers, id) // only joins, or one leave, so that the bound below is easy to see
					leaves++
				}
			}
			for range joins {
				balancers[fmt.Sprintf("m%03d", next)] = NewBalancer(nil)
				next++
			}
			var members []kafka.GroupMember
			for id, b := range balancers {
				data, err := b.UserData()
				require.NoError(t, err)
				members = append(members, kafka.GroupMember{ID: id, Topics: threeTopics, UserData: data})
			}
			got := NewBalancer(nil).AssignGroups(members, partitionsOf(threeTopics, n))
			now, moved := map[int]string{}, 0
			for id, b := range balancers {
				var numbers []int32
				for _, p := range numbersOf(t, got, id, threeTopics) {
					now[p] = id
					numbers = append(numbers, int32(p))
					if was, ok := owned[p]; ok && balancers[was] != nil && was != id {
						moved++
					}
				}
				b.Own(int64(generation+1), numbers)
			}
			m := len(balancers)
			switch {
			case before == 0:
			case joins == 0:
				require.Zero(t, moved, "a leave moves only what the leaver owned")
			default:
				require.LessOrEqual(t, moved, min(n, joins*((n+m-1)/m)), "a join moves only the newcomers' shares")
			}
			owned = now
		}
	})
}

func TestTheNewerClaimWins(t *testing.T) {
	got := NewBalancer(nil).AssignGroups([]kafka.GroupMember{
		member("a", threeTopics, claim{Generation: 3, Numbers: []int32{0, 1}}), // slept through generation 4
		member("b", threeTopics, claim{Generation: 4, Numbers: []int32{0, 1}}),
	}, partitionsOf(threeTopics, 4))
	assert.Equal(t, []int{2, 3}, got["a"]["payoffs"])
	assert.Equal(t, []int{0, 1}, got["b"]["payoffs"])
}

func TestDifferingPartitionCountsAreReportedAndTheCommonNumbersDivided(t *testing.T) {
	var seen map[string]int
	b := NewBalancer(func(counts map[string]int) { seen = counts })
	two := []string{"impressions", "payoffs"}
	partitions := append(partitionsOf(two[:1], 6), partitionsOf(two[1:], 4)...)
	got := b.AssignGroups([]kafka.GroupMember{member("a", two, claim{}), member("b", two, claim{})}, partitions)
	assert.Equal(t, map[string]int{"impressions": 6, "payoffs": 4}, seen)
	assert.Equal(t, []int{0, 1}, numbersOf(t, got, "a", two))
	assert.Equal(t, []int{2, 3}, numbersOf(t, got, "b", two))

	got = b.AssignGroups([]kafka.GroupMember{member("a", two, claim{})}, partitionsOf(two[:1], 6))
	assert.Equal(t, map[string]int{"impressions": 6, "payoffs": 0}, seen)
	assert.Empty(t, numbersOf(t, got, "a", two), "a topic that does not exist")
}

func TestHostileMembersAndPartitions(t *testing.T) {
	got := NewBalancer(nil).AssignGroups([]kafka.GroupMember{
		{ID: "a", Topics: threeTopics, UserData: []byte("nonsense")},
		{ID: "b", Topics: nil, UserData: encoded(claim{9, []int32{0, 1, 2}})},
		{ID: "a", Topics: threeTopics},
	}, append(partitionsOf(threeTopics, 3), kafka.Partition{Topic: "impressions", ID: -1}, kafka.Partition{Topic: "else"}))
	assert.Equal(t, []int{0, 1, 2}, numbersOf(t, got, "a", threeTopics))
	assert.Empty(t, got["b"])
	assert.Empty(t, NewBalancer(nil).AssignGroups(nil, nil))
}

// TestOwnIsTheNextClaim: the numbers of the last generation stay with their member.
func TestOwnIsTheNextClaim(t *testing.T) {
	b := NewBalancer(nil)
	data, err := b.UserData()
	require.NoError(t, err)
	require.Equal(t, encoded(claim{}), data)
	b.Own(7, []int32{3, 1})
	data, err = b.UserData()
	require.NoError(t, err)
	got := b.AssignGroups([]kafka.GroupMember{member("a", threeTopics, claim{6, []int32{1, 3}}), {ID: "b", Topics: threeTopics, UserData: data}}, partitionsOf(threeTopics, 4))
	require.Equal(t, []int{1, 3}, numbersOf(t, got, "b", threeTopics))
}

func BenchmarkAssign(b *testing.B) {
	var members []kafka.GroupMember
	for i := range 100 {
		members = append(members, member(fmt.Sprintf("m%d", i), threeTopics, claim{1, []int32{int32(i)}}))
	}
	partitions := partitionsOf(threeTopics, 1000)
	b.ReportAllocs()
	for b.Loop() {
		NewBalancer(nil).AssignGroups(members, partitions)
	}
}
