package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console/api"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store/audit/overview"
	"millwright/tools/millctl/remote"
)

// viaConsole reports that no log was named: the console of the kubeconfig's cluster is asked.
func (t *target) viaConsole() bool { return t.dataDir == "" && len(t.endpoints) == 0 }

// askConsole connects to the console and calls fn.
func (t *target) askConsole(ctx context.Context, fn func(*remote.Client) error) error {
	cluster, err := t.console.Load()
	if err != nil {
		return err
	}
	client, err := cluster.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return fn(client)
}

// qualified is a name with its namespace, for kinds that have one: the one that was asked for, or that of
// the context if the console of a kubeconfig is asked.
func (t *target) qualified(kind, name string) string {
	if kind = subjectKind(kind); kind != "pod" && kind != "capacitybuffer" || strings.Contains(name, "/") {
		return name
	}
	namespace := t.console.Namespace
	if namespace == "" && t.viaConsole() {
		if cluster, err := t.console.Load(); err == nil {
			namespace = cluster.Namespace
		}
	}
	if namespace == "" {
		namespace = "default"
	}
	return namespace + "/" + name
}

// whyByConsole prints the story of an object.
func (t *target) whyByConsole(ctx context.Context, out io.Writer, kind, name string) error {
	return t.askConsole(ctx, func(c *remote.Client) error {
		story := &view.Story{}
		if err := c.Get(ctx, "/why/"+url.PathEscape(strings.ToLower(kind))+"/"+escapedPath(t.qualified(kind, name)), nil, story); err != nil {
			return err
		}
		if story.Cut {
			fmt.Fprintln(out, "the story has more records than are shown, and begins earlier")
		}
		printStory(out, story.Lines)
		for _, line := range story.Now {
			fmt.Fprintln(out, line)
		}
		return nil
	})
}

// escapedPath escapes a name, whose slashes stay.
func escapedPath(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// logByConsole prints records: oldest first, as far back as the console reaches.
func (f filter) logByConsole(ctx context.Context, t *target, out io.Writer) error {
	return t.askConsole(ctx, func(c *remote.Client) error {
		query := url.Values{}
		for _, k := range f.kinds {
			kind, err := kindNamed(k)
			if err != nil {
				return err
			}
			query.Add("kind", kind)
		}
		if f.object != "" {
			query.Set("object", f.object)
		}
		tailed := url.Values{"kind": query["kind"], "object": query["object"]}
		if f.since > 0 {
			query.Set("since", f.since.String())
		}
		query.Set("limit", strconv.Itoa(pageSize))
		rows, last, err := allPages(ctx, c, query)
		if err != nil {
			return err
		}
		for i := len(rows) - 1; i >= 0; i-- {
			if err := f.printRow(out, &rows[i]); err != nil {
				return err
			}
		}
		if !f.follow {
			return nil
		}
		return c.Tail(ctx, tailed, last, func(data []byte) error {
			row := &index.Row{}
			if err := json.Unmarshal(data, row); err != nil {
				return fmt.Errorf("decode record: %w", err)
			}
			return f.printRow(out, row)
		})
	})
}

// kindNamed is a kind of records as the console writes it, whatever its case is here.
func kindNamed(name string) (string, error) {
	for _, k := range ledger.Kinds() {
		if strings.EqualFold(k.String(), name) {
			return k.String(), nil
		}
	}
	return "", fmt.Errorf("--kind %s: there is no such kind of records", name)
}

// allPages reads all pages of records, newest first, and the head of the log before the first one was
// made.
func allPages(ctx context.Context, c *remote.Client, query url.Values) (rows []index.Row, last uint64, err error) {
	for {
		page := &api.Decisions{}
		if err := c.Get(ctx, "/decisions", query, page); err != nil {
			return nil, 0, err
		}
		if last == 0 {
			last = page.Head
		}
		rows = append(rows, page.Items...)
		if page.Next == "" {
			return rows, last, nil
		}
		if len(rows) > 2*index.RowsMax {
			return nil, 0, errors.New("the console sends more records than it says that it keeps")
		}
		query.Set("cursor", page.Next)
	}
}

func (f filter) printRow(out io.Writer, r *index.Row) error {
	if f.output == "json" {
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode record %d: %w", r.Seq, err)
		}
		_, err = out.Write(append(b, '\n'))
		return err
	}
	return printLine(out, r.Seq, r.Time, r.Service, r.Text, r.Mode)
}

// statusByConsole prints what the console reports; it does not know the database.
func (t *target) statusByConsole(ctx context.Context, o *output, out io.Writer) error {
	return t.askConsole(ctx, func(c *remote.Client) error {
		st := &status{&overview.Status{}}
		if err := c.Get(ctx, "/status", nil, st.Status); err != nil {
			return err
		}
		return o.write(out, st, st.print)
	})
}

// commandsOfConsole lists commands.
func (t *target) commandsOfConsole(ctx context.Context) (list []overview.CommandLine, err error) {
	err = t.askConsole(ctx, func(c *remote.Client) error {
		answer := &api.Commands{}
		err := c.Get(ctx, "/commands", nil, answer)
		list = answer.Items
		return err
	})
	return list, err
}

// byConsole sends an order. Who gives it, the token says.
func (o *order) byConsole(cmd *cobra.Command, t *target, path string, send api.Order) error {
	if cmd.Flags().Changed("by") {
		return errors.New("--by goes with --data-dir or --etcd-endpoints: the console records whose token it is")
	}
	send.Reason = o.why
	return t.askConsole(cmd.Context(), func(c *remote.Client) error {
		recorded, err := c.Order(cmd.Context(), path, send)
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), recorded.Text)
		return nil
	})
}

// kindsOfStories that `why` knows, in the order in which help shows them.
var kindsOfStories = view.Kinds

// completionTimeout bounds what is done for one press of a key.
const completionTimeout = 5 * time.Second

// completeNames offers kinds, and then the names that there are now.
func (t *target) completeNames(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return kindsOfStories, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	if kind := subjectKind(args[0]); kind == "command" {
		return t.completeCommands(cmd, nil, typed)
	} else if cluster, err := t.console.Load(); err == nil {
		names, err := cluster.Names(ctx, kind, typed)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeCommands offers the commands that run, or wait for approval, by console or log.
func (t *target) completeCommands(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, err := t.commands(ctx)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list {
		names = append(names, fmt.Sprintf("%s\t%s, %s, %s", list[i].ID, list[i].State, list[i].Reason, strings.Join(list[i].Nodes, " ")))
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}
