package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

const payoffSchema = `{"type":"record","name":"P","fields":[{"name":"impression_id","type":"string"},{"name":"payoff","type":"double"}]}`

// by is a payoff by a schema.
func by(t *testing.T, id uint32) []byte {
	t.Helper()
	v := written(t, payoffSchema, map[string]any{"impression_id": "i-1", "payoff": 0.25})
	binary.BigEndian.PutUint32(v[1:], id)
	return v
}

func path(id uint32) string { return fmt.Sprintf("/schemas/ids/%d", id) }

// A record that names the next schema is refused, and records behind it, by the same schema registered since, are read.
func TestRead_AsksAgainBeforeItRefuses(t *testing.T) {
	r, s := start(t, map[string]string{path(7): answer(payoffSchema, "")})
	got, err := r.Read(t.Context(), event.Payoffs, [][]byte{by(t, 7), by(t, 8), by(t, 7)})
	require.NoError(t, err)
	require.Nil(t, got[0].Fault)
	require.Equal(t, event.UnknownSchema, got[1].Fault.Reason)
	require.Nil(t, got[2].Fault)
	s.register(path(8), answer(payoffSchema, ""))
	behind := make([][]byte, 1000)
	for i := range behind {
		behind[i] = by(t, 8)
	}
	asked := s.asked.Load()
	got, err = r.Read(t.Context(), event.Payoffs, behind)
	require.NoError(t, err)
	require.Len(t, got, len(behind))
	for _, c := range got {
		require.Nil(t, c.Fault)
		require.NotEmpty(t, c.Plain)
	}
	require.Equal(t, asked+1, s.asked.Load())
}

// Ids that no schema has are asked for many at once, each once in an answer, and displace no schema.
func TestRead_JunkDisplacesNothing(t *testing.T) {
	r, s := start(t, map[string]string{path(7): answer(payoffSchema, ""), path(8): answer(`"string"`, "")})
	_, f, err := r.one(t, event.Payoffs, by(t, 7))
	require.NoError(t, err)
	require.Nil(t, f)
	var junk [][]byte
	for id := range uint32(2 * 1000) {
		junk = append(junk, by(t, 1000+id/2))
	}
	asked := s.asked.Load()
	s.met = make(chan struct{})
	got, err := r.Read(t.Context(), event.Payoffs, junk)
	require.NoError(t, err)
	require.Len(t, got, len(junk))
	require.Equal(t, asked+1000, s.asked.Load())
	require.EqualValues(t, mostAtOnce, s.mostOnce.Load())
	for id := range uint32(2 * mostSchemas) { // as if schemas of others had been named
		remember(r.unfit, mostSchemas, key{event.Payoffs, 5000 + id}, &schema{fault: faultf(event.UnfitSchema, "")})
	}
	_, f, err = r.one(t, event.Payoffs, by(t, 8))
	require.NoError(t, err)
	require.Equal(t, event.UnfitSchema, f.Reason)
	require.Len(t, r.unfit, mostSchemas)
	require.Len(t, r.known, 1)
	asked = s.asked.Load()
	_, _, err = r.one(t, event.Payoffs, by(t, 7))
	require.NoError(t, err)
	require.Equal(t, asked, s.asked.Load(), "schema 7 is still known")
}

// Schemas beyond the bound take the place of one other each.
func TestKnownIsBounded(t *testing.T) {
	r, _ := start(t, map[string]string{path(7): answer(payoffSchema, "")})
	for id := range uint32(mostSchemas) {
		r.known[key{event.Payoffs, 1000 + id}] = &schema{}
	}
	_, f, err := r.one(t, event.Payoffs, by(t, 7))
	require.NoError(t, err)
	require.Nil(t, f)
	require.Len(t, r.known, mostSchemas)
}

// An id that cannot exist is not asked for: registries answer these with 404 alone.
func TestRead_IDsThatCannotExist(t *testing.T) {
	r, s := start(t, nil)
	for _, id := range []uint32{math.MaxInt32 + 1, math.MaxUint32} {
		s.fail(path(id), http.StatusNotFound)
		_, f, err := r.one(t, event.Payoffs, by(t, id)[:5])
		require.NoError(t, err)
		require.Equal(t, event.UnknownSchema, f.Reason)
		require.Contains(t, f.Detail, fmt.Sprint(id))
	}
	require.Zero(t, s.asked.Load())
}

// Records of one schema that the registry does not give, while it answers for others, are refused after a while, and those behind
// them are read. While it answers for none, nothing is refused.
func TestRead_OneSchemaFails(t *testing.T) {
	for name, c := range map[string]struct {
		known  bool // another schema
		status int
	}{
		"500":                    {true, http.StatusInternalServerError},
		"404":                    {true, http.StatusNotFound},
		"500, no other is known": {false, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := start(t, map[string]string{path(7): answer(payoffSchema, ""), path(9): answer(payoffSchema, "")})
			now := time.Unix(0, 0)
			r.now = func() time.Time { return now }
			if c.known {
				_, _, err := r.one(t, event.Payoffs, by(t, 7))
				require.NoError(t, err)
			}
			s.fail(path(9), c.status)
			fails := func(values ...[]byte) error {
				got, err := r.Read(t.Context(), event.Payoffs, values)
				require.Len(t, got, len(values)-1)
				require.ErrorContains(t, err, "does not give schema 9")
				return err
			}
			wait := func(d time.Duration) {
				for range d / (5 * time.Second) {
					require.ErrorIs(t, fails(by(t, 9)), broker.ErrContent)
					now = now.Add(5 * time.Second)
				}
			}
			require.ErrorIs(t, fails(by(t, 7), by(t, 9)), broker.ErrContent)
			wait(refusedAfter)
			s.ill.Store(true)
			require.NotErrorIs(t, fails(by(t, 9)), broker.ErrContent, "it answers for no other")
			s.ill.Store(false)
			wait(refusedAfter)
			got, err := r.Read(t.Context(), event.Payoffs, [][]byte{by(t, 9), by(t, 7)})
			require.NoError(t, err)
			require.Equal(t, event.UnknownSchema, got[0].Fault.Reason)
			require.Contains(t, got[0].Fault.Detail, "an answer of its own")
			require.Nil(t, got[1].Fault)

			now = now.Add(time.Hour)
			_, f, err := r.one(t, event.Payoffs, by(t, 9))
			require.NoError(t, err)
			require.NotNil(t, f, "the next record does not wait as long")
			s.fail(path(9), 0)
			_, f, err = r.one(t, event.Payoffs, by(t, 9))
			require.NoError(t, err)
			require.Nil(t, f, "it is asked for again")
			require.Empty(t, r.ill)
		})
	}
}

// A failure long after another is the first of its own: in between nobody asked.
func TestRead_FailuresFarApart(t *testing.T) {
	r, s := start(t, map[string]string{path(7): answer(payoffSchema, "")})
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	s.fail(path(9), http.StatusBadGateway)
	for range 3 {
		_, _, err := r.one(t, event.Payoffs, by(t, 9))
		require.ErrorIs(t, err, broker.ErrContent)
		now = now.Add(time.Hour)
	}
}

// A registry that has too much to do says nothing of a schema, and is not asked for all others.
func TestRead_BusyRegistry(t *testing.T) {
	r, s := start(t, nil)
	var values [][]byte
	for id := range uint32(1000) {
		values = append(values, by(t, id))
		s.fail(path(id), http.StatusTooManyRequests)
	}
	_, err := r.Read(t.Context(), event.Payoffs, values)
	require.Error(t, err)
	require.False(t, errors.Is(err, broker.ErrContent))
	require.LessOrEqual(t, s.asked.Load(), int64(mostFailures+mostAtOnce))
	require.Empty(t, r.ill)
}

// A reference that the registry does not have any more is a fault; one that it does not give is not, at first.
func TestRead_ReferencesThatAreGone(t *testing.T) {
	const whole = `{"type":"record","name":"Shown","fields":[{"name":"candidates","type":{"type":"array","items":"com.shop.Offer"}}]}`
	r, s := start(t, map[string]string{path(7): answer(whole, `,"references":[{"name":"com.shop.Offer","subject":"offer","version":3}]`)})
	_, f, err := r.one(t, event.Impressions, by(t, 7))
	require.NoError(t, err)
	require.Equal(t, event.UnknownSchema, f.Reason)
	require.True(t, strings.Contains(f.Detail, "version 3 of offer"), f.Detail)
	s.fail("/subjects/offer/versions/3", http.StatusInternalServerError)
	_, _, err = r.one(t, event.Impressions, by(t, 7))
	require.ErrorIs(t, err, broker.ErrContent)
}
