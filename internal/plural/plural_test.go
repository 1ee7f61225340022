package plural

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestN(t *testing.T) {
	assert.Equal(t, "0 rows", N(0, "row"))
	assert.Equal(t, "1 row", N(1, "row"))
	assert.Equal(t, "2 rows", N(int64(2), "row"))
	assert.Equal(t, "1 copy", Noun(1, "copy", "copies"))
	assert.Equal(t, "0 copies", Noun(0, "copy", "copies"))
}
