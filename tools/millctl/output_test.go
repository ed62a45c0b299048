package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What a reading command can be asked for besides table, JSON and YAML.
const (
	abilityWide  = "-o wide"
	abilityName  = "-o name"
	abilitySince = "--since"
	abilityWatch = "--watch"
)

// Commands that do something, or print something that is not about what was or is: they have none of the
// flags of reading commands.
var notReading = map[string]string{
	"approve": "gives an order", "reject": "gives an order", "stop": "gives an order", "resume": "gives an order", "rollouts resume": "gives an order",
	"log relieve": "makes room", "archive prune": "deletes", "archive set-aside": "changes the archive", "bundle": "writes a file, which -o names",
	"convert": "prints manifests", "userdata": "prints a script", "aws policy": "prints policies as JSON", "aws": "has sub-commands", "archive": "has sub-commands",
	"migrate": "has sub-commands", "shadow": "has sub-commands", "verify": "its exit status is the answer", "archive verify": "its exit status is the answer",
}

// What reading commands do not have, and why.
var without = map[string]map[string]string{
	"status":        {abilityName: "it is no list", abilitySince: "it is of the present"},
	"archive ls":    {abilitySince: "segments have no time", abilityWatch: "a segment is added once in hours"},
	"plan":          {abilityWide: "the table has everything", abilityName: "nodes to come have no names", abilitySince: "it is of the future", abilityWatch: "a plan takes seconds of a core"},
	"replay":        {abilityName: "it is no list", abilityWatch: "what was decided does not change"},
	"shadow report": {abilityWide: "JSON has everything", abilityName: "it is no list", abilityWatch: "it reads all observations"},
	"catalog":       {abilityWide: "JSON has everything", abilityName: "-o table has a line for each", abilitySince: "it is of the present", abilityWatch: "it changes once in weeks"},
	"preflight":     {abilityWide: "the table has everything", abilityName: "checks have no objects", abilitySince: "it is of the present", abilityWatch: "it asks hundreds of questions"},
	"migrate check": {abilityWide: "the table has everything", abilityName: "it is no list of objects", abilitySince: "it is of the present", abilityWatch: "it lists the whole cluster"},
}

// Every command of the tree that reads can be asked in the same ways, but for the exceptions above.
func TestEveryReadingCommandCanBeAskedInTheSameWays(t *testing.T) {
	seen := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "millctl"), " ")
		seen[name] = true
		if name == "" || name == "help" || strings.HasPrefix(name, "completion") || notReading[name] != "" {
			return
		}
		for _, f := range []string{formatTable, formatJSON, formatYAML} {
			if !hasFormat(c, f) {
				t.Errorf("millctl %s lacks -o %s", name, f)
			}
		}
		for ability, has := range map[string]bool{abilityWide: hasFormat(c, formatWide), abilityName: hasFormat(c, formatName),
			abilitySince: c.Flags().Lookup("since") != nil, abilityWatch: c.Flags().Lookup("watch") != nil} {
			if reason := without[name][ability]; has == (reason != "") {
				t.Errorf("millctl %s: %s is there: %t; the reason against it is %q", name, ability, has, reason)
			}
		}
	}
	walk(command())
	for _, list := range []map[string]string{notReading, reasonsOf(without)} {
		for name := range list {
			if !seen[name] {
				t.Errorf("there is no command %q", name)
			}
		}
	}
}

func reasonsOf(m map[string]map[string]string) map[string]string {
	list := map[string]string{}
	for name := range m {
		list[name] = ""
	}
	return list
}

func hasFormat(c *cobra.Command, format string) bool { return slices.Contains(formatsOf(c), format) }
