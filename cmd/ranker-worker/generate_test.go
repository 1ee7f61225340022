package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestGenerate_Interrupted: as for other commands, that is no fault, even if no broker answers.
func TestGenerate_Interrupted(t *testing.T) {
	inFile(t, "worker.yaml", sound)
	ctx, end := context.WithCancel(t.Context())
	end()
	var stderr strings.Builder
	assert.Equal(t, 0, execute(ctx, []string{"generate", "--config", "worker.yaml"}, strings.NewReader(""), io.Discard, &stderr), &stderr)
	assert.NotContains(t, stderr.String(), "canceled")
}

// TestGenerateRefusesWhatMakesNoSense before it connects to anything.
func TestGenerateRefusesWhatMakesNoSense(t *testing.T) {
	inFile(t, "worker.yaml", sound)
	for _, args := range [][]string{{"--rate", "0"}, {"--rate", "-1"}, {"--rate", "NaN"}, {"--rate", "10001"}, {"--for", "-1s"}, {"--learner", "feet"}} {
		got := run(t, "", append([]string{"generate", "--config", "worker.yaml"}, args...)...)
		assert.Equal(t, 2, got.code, "%v: %s", args, got.errOut)
	}
	assert.Contains(t, run(t, "", "generate", "--help").out, "never those of a platform")
}
