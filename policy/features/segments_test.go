package features

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpace_NumbersSegments(t *testing.T) {
	s, err := New(Declaration{Segments: []string{"new", "loyal"}})
	require.NoError(t, err)
	require.Equal(t, 3, s.Segments())
	for name, want := range map[string]int32{"new": 1, "loyal": 2, "": 0, "other": 0} {
		number, declared := s.Segment([]byte(name))
		require.Equal(t, want, number, name)
		require.Equal(t, want > 0, declared, name)
	}
	require.Equal(t, 1, s.Dim(), "they are no features")
	require.False(t, s.Categories())
	_, err = New(Declaration{Segments: []string{"new", "", "new"}})
	require.EqualError(t, err, "features: segment 2: it has no name")
	require.Len(t, (&Declaration{Segments: []string{"new", "", "new"}}).Check(), 2)
}
