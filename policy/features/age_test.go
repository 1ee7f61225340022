package features

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ages of 4^k − 1 minutes have one coordinate each; between two of them there are two, which add up to 1, and beyond the last nothing changes.
func TestAge_Steps(t *testing.T) {
	s, err := New(Declaration{User: []Feature{{Name: "tenure", High: 1}}, Age: true})
	require.NoError(t, err)
	require.Equal(t, 2, s.Width())
	require.Equal(t, 10, s.Dim())
	require.Equal(t, OfAge, s.Group(2))
	require.Equal(t, OfUser, s.Group(1))
	require.Equal(t, []string{"intercept", "tenure", "age 3m", "age 15m", "age 63m", "age 4h", "age 17h", "age 2d", "age 11d", "age 45d"}, s.Names())
	at := func(d time.Duration) []int8 { return s.AppendAge(nil, d.Milliseconds()) }
	require.Equal(t, make([]int8, 8), at(0))
	require.Equal(t, make([]int8, 8), at(-time.Hour), "an item that another partition met later")
	require.Equal(t, []int8{127, 0, 0, 0, 0, 0, 0, 0}, at(3*time.Minute))
	require.Equal(t, []int8{0, 0, 127, 0, 0, 0, 0, 0}, at(63*time.Minute))
	require.Equal(t, []int8{63, 64, 0, 0, 0, 0, 0, 0}, at(7*time.Minute))
	require.Equal(t, []int8{0, 0, 0, 0, 0, 0, 0, 127}, at(1000*24*time.Hour))
	plain, err := New(Declaration{})
	require.NoError(t, err)
	require.Empty(t, plain.AppendAge(nil, 5))
}
