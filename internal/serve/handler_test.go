package serve

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

// TestReadBody_ReservesWhatHasCome: a connection over which nothing has come holds no room, whatever length it announces.
func TestReadBody_ReservesWhatHasCome(t *testing.T) {
	const room, most = 64 << 10, 32 << 10
	bodies := semaphore.NewWeighted(room)
	var idle []*io.PipeWriter
	ended := make(chan int64)
	for range 64 {
		r, w := io.Pipe()
		idle = append(idle, w)
		go func() {
			_, reserved, p := readBody(r, bodies, most)
			if p == nil {
				reserved = -1
			}
			ended <- reserved
		}()
	}
	for _, w := range idle { // each has its request's first bytes read
		_, err := w.Write([]byte("{"))
		require.NoError(t, err)
	}
	body, reserved, p := readBody(strings.NewReader(strings.Repeat("x", most)), bodies, most)
	require.Nil(t, p)
	require.Len(t, body, most)
	require.LessOrEqual(t, reserved, int64(2*most))
	require.GreaterOrEqual(t, reserved, int64(most-firstBytes))
	bodies.Release(reserved)
	for _, w := range idle {
		w.CloseWithError(errors.New("the deadline"))
		require.Zero(t, <-ended)
	}

	full := semaphore.NewWeighted(firstBytes)
	_, reserved, p = readBody(bytes.NewReader(make([]byte, most)), full, most)
	require.Equal(t, http.StatusServiceUnavailable, p.Status, "memory is bounded")
	full.Release(reserved)
	_, _, p = readBody(http.MaxBytesReader(nil, io.NopCloser(strings.NewReader("12345")), 4), full, 4)
	require.Equal(t, http.StatusRequestEntityTooLarge, p.Status)
	_, _, p = readBody(iotest.ErrReader(errors.New("broken")), full, 4)
	require.Equal(t, http.StatusBadRequest, p.Status)
}

// TestSplit_IsBare: records are written without the white space around them, by which a worker would take them for another format.
func TestSplit_IsBare(t *testing.T) {
	for body, want := range map[string][]string{
		" \t\r\n{ } \n":            {"{ }"},
		"\n[ {\"a\":1} ,\n{ }\n] ": {`{"a":1}`, "{ }"},
		" ":                        {""},
	} {
		values, _, p := split([]byte(body))
		require.Nil(t, p)
		got := make([]string, len(values))
		for i, v := range values {
			got[i] = string(v)
		}
		require.Equal(t, want, got, "%q", body)
	}
}

// TestSplit_Refuses lists that are too long, at the cost of a list of the greatest length, and malformed ones.
func TestSplit_Refuses(t *testing.T) {
	list := func(n int) []byte { return []byte("[" + strings.Repeat("0,", n-1) + "0]") }
	values, _, p := split(list(mostRecords))
	require.Nil(t, p)
	require.Len(t, values, mostRecords)
	for _, n := range []int{mostRecords + 1, 1 << 20} {
		body := list(n)
		require.Less(t, testing.AllocsPerRun(1, func() { _, _, p = split(body) }), 10.0*mostRecords)
		require.Equal(t, http.StatusRequestEntityTooLarge, p.Status)
	}
	for _, body := range []string{"[", "[1", "[1,", "[1,]", "[1 2]", "[1}", "[,1]", "[1]]", "[1] 2", "[1],", "[{]", "[nul]"} {
		_, _, p := split([]byte(body))
		require.NotNil(t, p, body)
		require.Equal(t, http.StatusUnprocessableEntity, p.Status, body)
	}
}
