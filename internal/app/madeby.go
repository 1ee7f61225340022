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

// madeBy names what rankings are made by, for a replay to tell whether it can make the same: the kind of processor, whose floating point
// may round otherwise, and the settings.
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
