// Package deploy checks the folder deploy/ against the code, and against the rules of Kubernetes, Compose, Prometheus and Grafana make of
// it.
package deploy

import (
	"fmt"
	"os"
	"testing"
)

// TestMain has the tests read deploy/ as if they stood there.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../deploy"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
