package main

import (
	"testing"

	"millwright/tools/fenced"
)

// Every millctl command that a document shows is one, with these flags.
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
