package main

import (
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/reference/commands.md")

const (
	commandsPath = "../../docs/reference/commands.md"
	commandsHead = `# Commands in full

The help of every command, as ` + "`ranker-worker COMMAND --help`" + ` prints it; [commands](../commands.md) has them in one line each.
Do not edit this page: ` + "`go test ./cmd/ranker-worker -run TestCommandsReference -update`" + ` writes it.
`
)

// TestCommandsReference: docs/reference/commands.md has the help of each command.
func TestCommandsReference(t *testing.T) {
	root, _ := newRootCommand(strings.NewReader(""), io.Discard, io.Discard)
	var b strings.Builder
	b.WriteString(commandsHead)
	helpOf(&b, root)
	if *update {
		require.NoError(t, os.WriteFile(commandsPath, []byte(b.String()), 0o644))
	}
	page, err := os.ReadFile(commandsPath)
	require.NoError(t, err)
	assert.Equal(t, string(page), b.String(), "docs/reference/commands.md is stale: go test ./cmd/ranker-worker -run TestCommandsReference -update")
}

// boilerplate matches the lines of a help that every command has.
var boilerplate = regexp.MustCompile(`(?m)^  -h, --help .*\n|^Use ".* for more information about a command\.\n|\nFlags:\n+\z`)

// helpOf writes a section for each command below parent, the program's own first. Those of cobra (completion, help) are left out.
func helpOf(b *strings.Builder, parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		if name := cmd.Name(); name == "completion" || name == "help" {
			continue
		}
		var help strings.Builder
		cmd.SetOut(&help)
		cmd.InitDefaultHelpFlag()
		_ = cmd.Help() // a strings.Builder takes everything
		text := strings.TrimSpace(help.String()) + "\n"
		for boilerplate.MatchString(text) {
			text = boilerplate.ReplaceAllString(text, "")
		}
		b.WriteString("\n## " + strings.TrimPrefix(cmd.CommandPath(), "ranker-worker ") + "\n\n```\n" + strings.TrimSpace(text) + "\n```\n")
		helpOf(b, cmd)
	}
}
