package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	server "github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

// benchStore is a store on the benchmark's own server, whose address it returns.
func benchStore(b *testing.B) (*redisstore.Store, string) {
	b.Helper()
	addr := testenv.OwnRedis(b, server.Options{Args: []string{"--hash-max-listpack-value", "512"}}).Addr
	opts := redisstore.Options{Addresses: []string{addr}, Group: "bench"}
	s, err := redisstore.New(opts)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, s.Close())
	})
	return s, addr
}

// reportServerCPU makes a benchmark report the server's CPU time, which varies less than wall time on a busy machine.
// The server must be this benchmark's own. Call the result when the loop is done.
func reportServerCPU(b *testing.B, addr string) func() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	used := func() (seconds float64) {
		for line := range strings.SplitSeq(client.Info(context.Background(), "cpu").Val(), "\r\n") {
			k, v, _ := strings.Cut(line, ":")
			if k == "used_cpu_user_main_thread" || k == "used_cpu_sys_main_thread" {
				n, err := strconv.ParseFloat(v, 64)
				require.NoError(b, err)
				seconds += n
			}
		}
		return seconds
	}
	before := used()
	return func() {
		b.ReportMetric(1e6*(used()-before)/float64(b.N), "server-µs/op")
		require.NoError(b, client.Close())
	}
}

// entriesAt puts a value under each id, in pages of 128 from a number on, each of a bucket of the same number.
func entriesAt(page uint32, ids []state.ID, value []byte) (c state.Changes) {
	for i, id := range ids {
		at := page + uint32(i/pageSize)
		if i%pageSize == 0 {
			c.Pages = append(c.Pages, state.Page{Number: at, Bucket: int64(at)})
		}
		c.Entries = append(c.Entries, state.Entry{Place: state.Place{Page: at, ID: id}, Value: value})
	}
	return c
}

const pageSize = 128

// someIDs are n ids from a number on.
func someIDs(from, n int) []state.ID {
	ids := make([]state.ID, n)
	for i := range ids {
		ids[i] = state.IDOf(fmt.Append(nil, "impression-", from+i))
	}
	return ids
}

// benchCheckpoint changes items of one hash and as many records of 60 bytes.
func benchCheckpoint(round, items, entries int) state.Changes {
	const most = 10_000
	c := entriesAt(uint32(1+round*most), someIDs(round*most, entries), make([]byte, 60))
	for i := range items {
		c.Writes = append(c.Writes, state.Write{Hash: "feed:items", Field: fmt.Appendf(nil, "item-%d", i),
			Value: fmt.Appendf(nil, `{"n":%d,"fed":17,"sum":12.25,"squares":9.0625}`, i), Publish: true})
	}
	return c
}

func benchMeta() *state.Meta {
	return &state.Meta{Layout: 1, ClusterID: "c", TopicNames: []string{"impressions", "selections", "payoffs", "rankings"},
		Partitions: 6, Inputs: make([]state.Position, 3)}
}

// BenchmarkCheckpoint is for the claim of about 490 checkpoints a second of 1,000 item fields and 1,000 records.
func BenchmarkCheckpoint(b *testing.B) {
	for _, bc := range []struct {
		name           string
		items, entries int
	}{
		{"items=1000/records=1000", 1000, 1000},
		{"items=0/records=10000", 0, 10000},
		{"items=10/records=10", 10, 10},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s, addr := benchStore(b)
			ctx := b.Context()
			m, err := s.Acquire(ctx, 0, 1, false, benchMeta())
			require.NoError(b, err)
			const rounds = 16
			var changes [rounds]state.Changes
			for i := range changes {
				changes[i] = benchCheckpoint(i, bc.items, bc.entries)
			}
			c := &state.Checkpoint{Fence: m.Fence, Meta: m}
			report := reportServerCPU(b, addr)
			b.ReportAllocs()
			for b.Loop() {
				c.ID = strconv.FormatInt(c.Fence.Seq, 10)
				c.Changes = changes[c.Fence.Seq%rounds]
				require.NoError(b, s.Checkpoint(ctx, 0, c))
				c.Fence.Seq++
			}
			report()
		})
	}
}

// benchRecords stores n records and returns where 1,000 of them lie.
func benchRecords(b *testing.B, s *redisstore.Store, n int) []state.Place {
	b.Helper()
	m, err := s.Acquire(b.Context(), 0, 1, false, benchMeta())
	require.NoError(b, err)
	c := &state.Checkpoint{Fence: m.Fence, Meta: m}
	var places []state.Place
	for i := range n / 10000 {
		c.ID, c.Changes = strconv.Itoa(i), benchCheckpoint(i, 0, 10000)
		require.NoError(b, s.Checkpoint(b.Context(), 0, c))
		c.Fence.Seq++
		for j := 0; len(places) < 1000 && j < 100; j++ {
			places = append(places, c.Changes.Entries[j*97].Place)
		}
	}
	return places
}

func BenchmarkLookUp(b *testing.B) {
	s, addr := benchStore(b)
	places := benchRecords(b, s, 100000)
	for _, n := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			report := reportServerCPU(b, addr)
			b.ReportAllocs()
			for b.Loop() {
				_, values, err := s.LookUp(b.Context(), 0, places[:n], 1<<30)
				require.NoError(b, err)
				require.NotNil(b, values[n-1])
			}
			report()
		})
	}
}
