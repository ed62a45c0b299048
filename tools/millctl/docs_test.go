package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millwright/services/transport"
	"millwright/tools/clipage"
	"millwright/tools/fenced"
)

var rewrite = flag.Bool("rewrite", false, "rewrite docs/cli/millctl.md")

// docs/cli/millctl.md shows every command and flag; `make generate` rewrites it.
func TestReferencePage(t *testing.T) {
	command().PersistentFlags().VisitAll(func(f *pflag.Flag) { t.Setenv(transport.EnvironmentName(f.Name), "") })
	t.Setenv("AWS_REGION", "")
	clipage.Verify(t, "../../docs/cli/millctl.md", *rewrite, clipage.Page(command(),
		"[explain.md](../explain.md) has examples, and [configuration.md](../configuration.md#millctl) says more about the settings."))
}

// Every millctl command that a document shows exists, with its flags.
func TestCommandsInDocuments(t *testing.T) {
	documents, err := fenced.Documents("../..")
	if err != nil {
		t.Fatal(err)
	}
	commands, err := fenced.Commands(documents, "millctl", "bin/millctl", "./bin/millctl")
	if err != nil || len(commands) < 50 {
		t.Fatalf("%d commands, %v", len(commands), err)
	}
	for _, c := range commands {
		if err := fenced.Check(command(), c); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// TestEveryCommandAndFlagIsDocumented checks the tables of configuration.md.
func TestEveryCommandAndFlagIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## millctl\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, connections, _ := strings.Cut(string(page), "\n### Connections\n")
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		name := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "millctl"), " ")
		if name == "help" || strings.HasPrefix(name, "completion ") {
			return
		}
		if name != "" && c.Runnable() && !strings.Contains(section, "`"+name) {
			t.Errorf("millctl %s is not documented", name)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(section, "--"+f.Name) && !strings.Contains(connections, "`--"+f.Name+"`") {
				t.Errorf("--%s of millctl %s is not documented", f.Name, name)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(command())
}
