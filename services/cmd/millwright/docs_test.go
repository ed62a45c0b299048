package main

import (
	"flag"
	"testing"

	"millwright/tools/clipage"
	"millwright/tools/fenced"
)

var rewrite = flag.Bool("rewrite", false, "rewrite docs/cli/millwright.md")

// docs/cli/millwright.md shows every command and flag; `make generate` rewrites it.
func TestReferencePage(t *testing.T) {
	clipage.Verify(t, "../../../docs/cli/millwright.md", *rewrite, clipage.Page(newRoot(),
		"[configuration.md](../configuration.md) says more about the settings and lists their environment variables."))
}

// Every millwright command that a document shows is one, with these flags.
func TestCommandsInDocuments(t *testing.T) {
	documents, err := fenced.Documents("../../..")
	if err != nil {
		t.Fatal(err)
	}
	commands, err := fenced.Commands(documents, "millwright", "bin/millwright", "./bin/millwright")
	if err != nil || len(commands) < 10 {
		t.Fatalf("%d commands, %v", len(commands), err)
	}
	for _, c := range commands {
		if len(c.Args) > 1 && c.Args[1] == "$SERVICE" {
			c.Args[1] = "watcher" // a variable in a script; all services take these flags
		}
		if err := fenced.Check(newRoot(), c); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}
