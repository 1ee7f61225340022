package app

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/config"
)

// sectionsOfDecisions are the sections of a configuration that decisions depend on.
var sectionsOfDecisions = []string{"learners:", "experiments:", "join:", "limits:"}

// madeBy identifies the inputs of rankings outside the log, so that a replay can compare them: the kind of processor, which may round
// differently, and the settings.
func madeBy(cfg *config.Config) (program, settings string, err error) {
	var b bytes.Buffer
	if err := cfg.Print(&b); err != nil {
		return "", "", err
	}
	h := xxhash.New()
	in := false
	for line := range strings.Lines(b.String()) {
		if line[0] != ' ' && line[0] != '\n' {
			in = false
			for _, s := range sectionsOfDecisions {
				in = in || strings.HasPrefix(line, s)
			}
		}
		if in {
			_, _ = h.WriteString(line) // never fails
		}
	}
	return runtime.GOARCH, fmt.Sprintf("%016x", h.Sum64()), nil
}
