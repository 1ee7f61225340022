package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestGenerateRefusesWhatMakesNoSense before it connects to anything.
func TestGenerateRefusesWhatMakesNoSense(t *testing.T) {
	inFile(t, "worker.yaml", sound)
	for _, args := range [][]string{{"--rate", "0"}, {"--rate", "-1"}, {"--rate", "NaN"}, {"--rate", "10001"}, {"--for", "-1s"}, {"--learner", "feet"}} {
		got := run(t, "", append([]string{"generate", "--config", "worker.yaml"}, args...)...)
		assert.Equal(t, 2, got.code, "%v: %s", args, got.errOut)
	}
	assert.Contains(t, run(t, "", "generate", "--help").out, "never those of a platform")
}
