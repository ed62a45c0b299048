package clipage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestPage(t *testing.T) {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "prog", Short: "Do things", Version: "1", Long: "Prog does things.\n\nBegin:  prog a\n        prog b"}
	root.PersistentFlags().StringSlice("at", nil, "where a|b stands")
	list := &cobra.Command{Use: "list", Short: "Many things"}
	show := &cobra.Command{Use: "show NAME", Short: "Show one", Run: run}
	show.Flags().BoolP("all", "a", false, "each of them")
	show.Flags().Duration("for", time.Minute, "how long")
	list.AddCommand(show)
	root.AddCommand(list, &cobra.Command{Use: "again", Short: "Do them again", Run: run}, &cobra.Command{Use: "x", Hidden: true, Run: run})
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()

	want := "# prog\n\nGenerated from the program by `make generate`: its commands with their arguments and flags, as\n" +
		"`prog COMMAND --help` shows them. Further.\n\n| Command | What |\n|---|---|\n" +
		"| [`prog again`](#prog-again) | Do them again |\n| [`prog list show`](#prog-list-show) | Show one |\n" +
		"\nProg does things.\n\n```\nBegin:  prog a\n        prog b\n```\n" +
		"\n| Flag of every command | Default | Meaning |\n|---|---|---|\n| `--at strings` |  | where a\\|b stands |\n" +
		"\n## prog again\n\n```\nprog again\n```\n\nDo them again.\n" +
		"\n## prog list\n\nMany things.\n" +
		"\n## prog list show\n\n```\nprog list show NAME [flags]\n```\n\nShow one.\n" +
		"\n| Flag | Default | Meaning |\n|---|---|---|\n| `-a, --all` |  | each of them |\n| `--for duration` | `1m0s` | how long |\n"
	if diff := cmp.Diff(want, Page(root, "Further.")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
