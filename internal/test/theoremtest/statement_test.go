package theoremtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamed_ByNameAndByTheTable(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	write("docs/contribute/statements.md", "| Appendix C.1 | `x.go` | `TestBurnIn_Ends`, `TestElsewhere` |\n| ours: ties | `x.go` | `TestTies` |\n")
	write("a/b/x_test.go", "package b\nfunc TestTheorem31_Bound(){}\nfunc TestTies(){}\nfunc TestBurnIn_Ends(){}\nfunc TestAlgorithms(){}\n")
	write("a/b/y_test.go", "package b_test\nfunc TestSection43_Unbiased(){}\n")
	t.Chdir(filepath.Join(root, "a", "b"))
	require.Equal(t, []string{"TestBurnIn_Ends", "TestTheorem31_Bound"}, named(t, "b"))
	require.Equal(t, []string{"TestSection43_Unbiased"}, named(t, "b_test"))
}
