package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millwright/store"
	"millwright/store/audit/heads"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/screen"
)

// verifyFlags of the command.
type verifyFlags struct {
	publicKeys []string
	head       string
}

func verifyCommand(t *target) *cobra.Command {
	f := verifyFlags{}
	cmd := &cobra.Command{
		Use: "verify", Short: "Verify the hash chain of the log, and who signed it", Args: cobra.NoArgs,
		Long: `Verify reads every record, archived or live, and checks its hash and its place in the chain. Exit status 1 if a
record was changed, removed or moved; the message names its sequence.

From a kubeconfig alone the console does that, and is believed: what is checked here are the signed heads that it names. Who holds no key of the
signer cannot make one up, but whether the records between them are good only the log itself says (docs/threat-model.md).

With --public-key it also checks each signed head (--log-signing-key-file) and prints the newest one as SEQ:HASH: up to there no record
was changed, dropped or added since it was signed. Give all keys that ever signed. Keep what it prints elsewhere, and give it
as --head next time: that also shows that the log was not cut off, or restored from an older backup, since.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var keys []heads.Key
			for _, path := range f.publicKeys {
				more, err := heads.PublicKeys(path)
				if err != nil {
					return err
				}
				keys = append(keys, more...)
			}
			if t.viaConsole() {
				return f.byConsole(cmd, t, keys)
			}
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			return f.verify(cmd.Context(), s.log, keys, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringSliceVar(&f.publicKeys, "public-key", nil, "PEM files with the Ed25519 keys that signed the log")
	cmd.Flags().StringVar(&f.head, "head", "", "a head that verify printed before, as SEQ:HASH: the log must have it")
	return cmd
}

func (f verifyFlags) verify(ctx context.Context, log store.Log, keys []heads.Key, out io.Writer) error {
	last, err := log.Verify(ctx)
	if err != nil {
		return fmt.Errorf("verify: good up to record %d: %w", last, err)
	}
	fmt.Fprintf(out, "log %s: %d records, hash chain intact\n", log.ID(), last)
	return f.signatures(ctx, log, keys, last, out, func(c *heads.Checker) (first uint64, _ error) {
		err := eachRecord(ctx, log, func(rec store.Record) error {
			if first == 0 {
				first = rec.Seq
			}
			return c.Add(rec)
		})
		return first, err
	})
}

// byConsole has the console check the chain, and checks here what was signed.
func (f verifyFlags) byConsole(cmd *cobra.Command, t *target, keys []heads.Key) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	number, _, _ := strings.Cut(f.head, ":")
	record, _ := strconv.ParseUint(number, 10, 64) // whether it is one says the Checker
	return t.askConsole(ctx, func(c *remote.Client) error {
		s, err := c.Verify(ctx, record, screen.Progress(cmd.ErrOrStderr(), "record"))
		switch {
		case err != nil:
			return fmt.Errorf("verify: %w", err)
		case s.Broken != "":
			return fmt.Errorf("verify: good up to record %d: %s", s.Records, s.Broken)
		}
		fmt.Fprintf(out, "log %s: %d records, hash chain intact, says the console\n", s.ID(), s.Records)
		return f.signatures(ctx, s, keys, s.Records, out, func(c *heads.Checker) (uint64, error) { return s.First, s.AddTo(c) })
	})
}

// signatures checks the head that was given, and what was signed: add gives it to the Checker and returns the
// first record.
func (f verifyFlags) signatures(ctx context.Context, log heads.Log, keys []heads.Key, last uint64, out io.Writer, add func(*heads.Checker) (uint64, error)) error {
	checker := heads.NewChecker(log, keys)
	if f.head != "" {
		if err := checker.Holds(ctx, f.head); err != nil {
			return fmt.Errorf("verify: --head: %w", err)
		}
		fmt.Fprintln(out, "it goes on from the head given")
	}
	if len(keys) == 0 {
		return nil
	}
	first, err := add(checker)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	newest, err := checker.Finish(ctx, first)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	fmt.Fprintf(out, "signed up to record %d by key %s at %s, %d records are not signed yet\nhead %d:%s\n",
		newest.Seq, newest.Key, newest.Time.Format(time.RFC3339), last-newest.Seq, newest.Seq, newest.Hash)
	return nil
}

// closeInto closes the session and reports its error if there is no other.
func closeInto(s *session, err *error) {
	if cerr := s.Close(); *err == nil {
		*err = cerr
	}
}
