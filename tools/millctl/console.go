package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
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
	"millwright/tools/millctl/screen"
)

// viaConsole reports that no log was named: the console of the kubeconfig's cluster is asked.
func (t *target) viaConsole() bool { return t.dataDir == "" && len(t.endpoints) == 0 }

// askConsole connects to the console and calls fn. With --watch the connection is kept for the next question,
// and made anew if it, or its token, is not good any more.
func (t *target) askConsole(ctx context.Context, fn func(*remote.Client) error) error {
	if t.connected != nil {
		err := fn(t.connected)
		if err == nil || ctx.Err() != nil {
			return err
		}
		t.connected.Close()
		t.connected = nil
	}
	cluster, err := t.console.Load()
	if err != nil {
		return err
	}
	client, err := cluster.Connect(ctx)
	if err != nil {
		return err
	}
	client.Cluster = t.cluster
	err = fn(client)
	if err == nil && slices.ContainsFunc(t.watches, func(set *bool) bool { return *set }) {
		t.connected = client
		context.AfterFunc(ctx, client.Close)
		return nil
	}
	client.Close()
	return err
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

// storyByConsole asks for the story of an object.
func (t *target) storyByConsole(ctx context.Context, kind, name string) (*view.Story, error) {
	story := &view.Story{}
	return story, t.askConsole(ctx, func(c *remote.Client) error {
		return c.Get(ctx, "/why/"+url.PathEscape(strings.ToLower(kind))+"/"+escapedPath(t.qualified(kind, name)), nil, story)
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
	query := url.Values{"kind": f.kinds, "limit": {strconv.Itoa(pageSize)}}
	if f.object != "" {
		query.Set("object", f.object)
	}
	if f.since > 0 {
		query.Set("since", f.since.String())
	}
	if f.until > 0 {
		query.Set("until", f.until.String())
	}
	records := remote.Records{Query: query, Follow: f.follow, Print: func(r *index.Row) error { return f.printRow(out, r) }, LeftOut: func(first uint64) {
		fmt.Fprintf(os.Stderr, "millctl: those before record %d are left out: choose with --since, --kind or --object\n", first)
	}}
	return records.Read(ctx, t.askConsole)
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

func (f filter) printRow(out io.Writer, r *index.Row) error {
	switch f.format {
	case formatJSON:
		return printJSONLine(out, r, r.Seq)
	case formatYAML:
		fmt.Fprintln(out, "---")
		return screen.WriteYAML(out, r)
	}
	return f.printLine(out, line{r.Seq, r.Time, r.Service, r.Kind, r.Text, r.Mode, r.Subjects})
}

// commandsOfConsole lists commands.
func (t *target) commandsOfConsole(ctx context.Context) (list []overview.CommandLine, err error) {
	err = t.askConsole(ctx, func(c *remote.Client) error {
		list = nil
		for query := (url.Values{}); ; {
			answer := &api.Commands{}
			if err := c.Get(ctx, "/commands", query, answer); err != nil {
				return err
			}
			list = append(list, answer.Items...)
			if answer.Next == "" {
				return nil
			}
			query.Set("cursor", answer.Next)
		}
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
	return t.namesOf(cmd, subjectKind(args[0]), typed), cobra.ShellCompDirectiveNoFileComp
}

// namesOf are those that there are of a kind, as records name it, that begin as typed.
func (t *target) namesOf(cmd *cobra.Command, kind, typed string) (names []string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	var err error
	switch kind {
	case "command":
		names, _ = t.completeCommands(cmd, nil, typed)
	case "instance", "offering":
		names, err = t.recentNames(ctx, kind, typed)
	default:
		var cluster *remote.Cluster
		if cluster, err = t.console.Load(); err == nil {
			names, err = cluster.Names(ctx, kind, typed)
		}
	}
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return names
}

// recentNames are instances, or offerings, that the newest launches name: nobody lists them.
func (t *target) recentNames(ctx context.Context, kind, typed string) (names []string, err error) {
	kinds := []string{ledger.KindLaunched.String(), ledger.KindFleetAnswered.String(), ledger.KindLaunchFailed.String()}
	if !t.viaConsole() {
		return nil, nil
	}
	page := &api.Decisions{}
	err = t.askConsole(ctx, func(c *remote.Client) error {
		return c.Get(ctx, "/decisions", url.Values{"kind": kinds, "limit": {strconv.Itoa(pageSize)}}, page)
	})
	for i := range page.Items {
		for _, s := range page.Items[i].Subjects {
			if name, found := strings.CutPrefix(s, kind+"/"); found && strings.HasPrefix(name, typed) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// completeObject offers subjects: a kind, and then the names that there are.
func (t *target) completeObject(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	word, name, named := strings.Cut(typed, "/")
	var list []string
	if !named {
		for _, k := range kindsOfStories {
			list = append(list, subjectKind(k)+"/")
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	for _, n := range t.namesOf(cmd, subjectKind(word), name) {
		list = append(list, word+"/"+n)
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeRollouts offers the NodePools whose roll-outs have halted.
func (t *target) completeRollouts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, err := t.rollouts(ctx)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	var names []string
	for i := range list {
		if list[i].Halted != nil {
			names = append(names, list[i].NodePool+"\t"+list[i].Halted.Reason)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFlags offers what the flags of a command and of those below it may be.
func (t *target) completeFlags(c *cobra.Command) {
	kinds := []string{}
	for _, k := range ledger.Kinds() {
		kinds = append(kinds, k.String())
	}
	offer := map[string]cobra.CompletionFunc{
		"object": t.completeObject, "kind": cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp),
		"state": cobra.FixedCompletions(overview.CommandStates, cobra.ShellCompDirectiveNoFileComp),
	}
	if formats := formatsOf(c); len(formats) > 0 {
		offer["output"] = cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
	}
	for name, fn := range offer {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, fn) // it fails for flags that are not there
		}
	}
	for _, sub := range c.Commands() {
		t.completeFlags(sub)
	}
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
