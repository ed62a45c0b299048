// Package arguments checks the words of a command line beside its flags. It prints nothing.
package arguments

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Misspelt refuses a word that is none of the commands of a group, such as archive: cobra would print help
// for it, and succeed. Whatever else may be wrong is left to cobra.
func Misspelt(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	group, rest, err := root.Find(args)
	if err != nil || group == root || group.Runnable() || group.ParseFlags(rest) != nil || group.Flags().NArg() == 0 {
		return nil //nolint:nilerr // cobra says what is wrong, if anything is
	}
	return fmt.Errorf("unknown command %q for %q", group.Flags().Arg(0), group.CommandPath())
}

// Exactly demands so many arguments, and says what they are if there are more or fewer.
func Exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return fmt.Errorf("%s takes %d argument(s), not %d: %s", cmd.Name(), n, len(args), cmd.Use)
	}
}
