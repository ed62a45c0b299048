package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func verifyCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Verify the hash chain of the log", Args: cobra.NoArgs,
		Long: "Verify reads every record, archived or live, and checks its hash and its place in the chain. Exit status 1 if a\nrecord was changed, removed or moved; the message names its sequence.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			last, err := s.log.Verify(cmd.Context())
			if err != nil {
				return fmt.Errorf("verify: good up to record %d: %w", last, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "log %s: %d records, hash chain intact\n", s.log.ID(), last)
			return nil
		},
	}
}

// closeInto closes the session and reports its error if there is no other.
func closeInto(s *session, err *error) {
	if cerr := s.Close(); *err == nil {
		*err = cerr
	}
}
