package broker

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestReader: answers come in order up to the end, or to the first open transaction. A request is repeated while it fails.
func TestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, failures, open := []int64{}, 0, int64(1000)
		fetch := func(_ context.Context, offset int64) (string, int64, error) {
			if asked = append(asked, offset); failures > 0 {
				failures--
				return "half", offset + 1, errAway
			}
			return "answer", min(offset+10, open), nil
		}
		readAll := func(r *Reader[string]) (answers int, err error) {
			for {
				switch a, err := r.Next(t.Context()); {
				case errors.Is(err, io.EOF):
					return answers, nil
				case err != nil:
					return answers, err
				default:
					require.Equal(t, "answer", a)
					answers++
				}
			}
		}

		r := NewReader(5, 25, fetch)
		failures = 2
		n, err := readAll(r)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, []int64{5, 5, 5, 15}, asked)
		require.EqualValues(t, 25, r.Offset())

		open = 12
		r = NewReader(5, 25, fetch)
		n, err = readAll(r)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.EqualValues(t, 12, r.Offset())

		failures, open = 1_000_000, 1000
		began := time.Now()
		_, err = readAll(r)
		require.ErrorIs(t, err, errAway)
		require.ErrorContains(t, err, "reading from offset 12: ")
		require.InDelta(t, patience, time.Since(began), float64(attemptPause))
		failures = 0
		n, err = readAll(r)
		require.NoError(t, err)
		require.Equal(t, 2, n, "it continues where it failed")
	})
}

// TestRetry_CutOff: a context that ends amid a request leaves the error of the request before.
func TestRetry_CutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls := 0
		_, err := Retry(ctx, func(ctx context.Context) (int, error) {
			if calls++; calls == 1 {
				return 0, errAway
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, errAway)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestRetry_Lasting: an error that would come again is returned at once, and so is one behind the end of a context.
func TestRetry_Lasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		began := time.Now()
		for _, lasting := range []error{task.ErrOffsetOutOfRange, task.ErrUnsupported, ErrCorrupt} {
			_, err := Retry(t.Context(), func(context.Context) (int, error) { calls++; return 0, lasting })
			require.ErrorIs(t, err, lasting)
		}
		require.Equal(t, 3, calls)
		require.Zero(t, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Retry(ctx, func(context.Context) (int, error) { return 0, errAway })
		require.ErrorIs(t, err, errAway)
		require.Equal(t, time.Second, time.Since(began))
	})
}
