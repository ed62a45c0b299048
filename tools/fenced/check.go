package fenced

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Check reports what a program would refuse in a command: an unknown sub-command or flag, a flag without
// its value, and, in a block, the wrong number of arguments. Values are not checked: in documents they are
// placeholders.
func Check(root *cobra.Command, c Command) error {
	var args []string
	for _, a := range c.Args[1:] {
		if a = strings.Trim(a, "[]"); a != "…" && a != "..." {
			args = append(args, a)
		}
	}
	if len(args) > 0 && args[0] == "COMMAND" {
		return nil
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	cmd.InitDefaultHelpFlag()
	positional, err := flags(cmd, rest)
	switch {
	case err != nil && (c.Block || !errors.Is(err, errNoValue)):
		return err
	case cmd.HasSubCommands() && len(positional) > 0:
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), positional[0])
	case c.Block && cmd.Runnable():
		return cmd.ValidateArgs(positional)
	}
	return nil
}

var errNoValue = errors.New("no value")

// flags looks up each flag and returns the other arguments.
func flags(cmd *cobra.Command, args []string) (positional []string, err error) {
	for i := 0; i < len(args); i++ {
		name, _, value := strings.Cut(args[i], "=")
		var f *pflag.Flag
		switch {
		case strings.HasPrefix(name, "--"):
			f = cmd.Flag(name[2:])
		case strings.HasPrefix(name, "-") && len(name) > 1:
			if f = cmd.Flags().ShorthandLookup(name[1:2]); f == nil {
				f = cmd.InheritedFlags().ShorthandLookup(name[1:2])
			}
			value = value || len(name) > 2
		default:
			positional = append(positional, args[i])
			continue
		}
		if f == nil {
			return nil, fmt.Errorf("%s has no flag %s", cmd.CommandPath(), name)
		}
		if value || f.NoOptDefVal != "" {
			continue
		}
		if i++; i >= len(args) {
			return nil, fmt.Errorf("%s %s: %w", cmd.CommandPath(), name, errNoValue)
		}
	}
	return positional, nil
}
