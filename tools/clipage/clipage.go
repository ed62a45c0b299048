// Package clipage writes the reference page of a program: its commands, their arguments and their flags, as
// the program's own help shows them. Tests of the programs keep docs/cli up to date with it.
package clipage

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Verify fails the test unless the file holds the page. With rewrite it is written first.
func Verify(t testing.TB, file string, rewrite bool, page string) {
	t.Helper()
	if rewrite {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page {
		t.Errorf("%s is out of date: run make generate, or this test with -rewrite", file)
	}
}

// Page is the page of a program in Markdown, with a sentence that leads on to other pages. Equal trees of
// commands give equal pages; cobra's own commands help and completion are left out.
func Page(root *cobra.Command, further string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nGenerated from the program by `make generate`: its commands with their arguments and flags, as\n"+
		"`%s COMMAND --help` shows them. %s\n\n", root.Name(), root.Name(), further)
	all := commands(root)
	b.WriteString("| Command | What |\n|---|---|\n")
	for _, c := range all {
		if c.Runnable() {
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), cell(c.Short))
		}
	}
	for i, c := range all {
		if i > 0 {
			fmt.Fprintf(&b, "\n## %s\n", c.CommandPath())
		}
		section(&b, c)
	}
	return b.String()
}

// commands are a command and all below it, in the order of their names.
func commands(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" && !sub.Hidden {
			list = append(list, commands(sub)...)
		}
	}
	return list
}

func section(b *strings.Builder, c *cobra.Command) {
	if c.Runnable() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	}
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		fmt.Fprintf(b, "\n%s\n", prose(paragraph))
	}
	own, title := c.NonInheritedFlags(), "Flag"
	if c.HasSubCommands() && !c.HasParent() {
		title = "Flag of every command"
	}
	var rows []string
	own.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" && !f.Hidden {
			rows = append(rows, row(f))
		}
	})
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| %s | Default | Meaning |\n|---|---|---|\n%s", title, strings.Join(rows, ""))
	}
}

// prose is a paragraph of a help text; one that the terminal shows as columns is kept as it is.
func prose(paragraph string) string {
	lines := strings.Split(paragraph, "\n")
	if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, " ") }) {
		return "```\n" + paragraph + "\n```"
	}
	return escaped.Replace(paragraph)
}

// row is a flag's line of the table. Defaults that say that nothing is set are left out.
func row(f *pflag.Flag) string {
	kind, usage := pflag.UnquoteUsage(f)
	name := strings.TrimSpace("--" + f.Name + " " + kind)
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	value := f.DefValue
	if value != "" && value != "[]" && value != "false" {
		value = "`" + value + "`"
	} else {
		value = ""
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, value, cell(usage))
}

var escaped = strings.NewReplacer("<", "&lt;", "*", `\*`)

// cell is a text within a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(escaped.Replace(text))
}
