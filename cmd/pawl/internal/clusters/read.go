package clusters

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
)

func (a verbs) clusterList() *cobra.Command {
	var state, name, keyword, account, cursor string
	var limit int
	var all, watch bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List clusters",
		Long:    "Lists clusters, oldest first. Destroyed ones are listed with --state Destroyed only.",
		Example: "  pawl cluster list\n  pawl cluster list --state Alert -o json\n  pawl cluster list -w", Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "only this `state`")
	f.StringVar(&name, "name", "", "only names that hold this `text`")
	f.StringVarP(&keyword, "query", "q", "", "only names and descriptions that hold this `text`")
	f.StringVar(&account, "account", "", "only clusters of the account with this `id`")
	f.StringVar(&cursor, "cursor", "", "go on behind an earlier page, with its `next`")
	f.IntVar(&limit, "limit", 100, "at most this `number` of entries")
	f.BoolVar(&all, "all", false, "all entries, however many")
	f.BoolVarP(&watch, "watch", "w", false, "go on and print what changes")
	cli.SetCompletions(cmd, map[string]cli.Completion{"state": cli.FixedCompletion(cluster.States...)})
	cmd.RunE = a.WithServer(func(ctx context.Context, remote *client.Client, _ []string) error {
		params := client.ListClustersParams{State: state, Name: name, Q: keyword, Account: account, Cursor: cursor, Limit: limit}
		return a.every(ctx, watch, func() (any, []string, cli.Drawing, error) {
			page, err := clusterPages(ctx, remote, params, all)
			names := cli.NamesOf(page.Items, func(c view.Cluster) string { return c.Name })
			if len(page.Items) == 0 {
				return page, names, cli.Fixed("no clusters\n"), err
			}
			return page, names, view.ClusterTable(page.Items, time.Now()).Text, err
		})
	})
	return cmd
}

func clusterPages(ctx context.Context, remote *client.Client, params client.ListClustersParams, all bool) (page client.Items[view.Cluster], err error) {
	page.Items, page.Next, err = cli.Pages(params.Cursor, all, func(cursor string) ([]view.Cluster, string, error) {
		params.Cursor = cursor
		next, err := remote.ListClusters(ctx, params)
		page.Total = next.Total
		return next.Items, next.Next, err
	})
	return page, err
}

const watchEvery = time.Second

// every prints once, or with watch whenever what it reads has changed.
func (a verbs) every(ctx context.Context, watch bool, read func() (any, []string, cli.Drawing, error)) error {
	var printed cli.Printed
	for {
		v, names, draw, err := read()
		if err != nil {
			if watch {
				return cli.WatchEnded(ctx, err)
			}
			return err
		}
		if text, changed := printed.Next(draw, a.Style(a.Out)); changed {
			if err := a.Emit(v, names, func() string { return text }); err != nil {
				return err
			}
		}
		if !watch {
			return nil
		}
		select {
		case <-ctx.Done():
			return cli.WatchEnded(ctx, ctx.Err())
		case <-time.After(watchEvery):
		}
	}
}

// clusterReader returns a verb that reads one part of a cluster. -o name prints the cluster,
// or the names of a list.
func (a verbs) clusterReader(use, short, example string, read func(ctx context.Context, remote *client.Client, id string) (any, func() string, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeClusters,
		RunE: a.WithServer(func(ctx context.Context, remote *client.Client, args []string) error {
			v, text, err := read(ctx, remote, args[0])
			if err != nil {
				return err
			}
			names := []string{args[0]}
			if list, ok := v.(interface{ names() []string }); ok {
				names = list.names()
			}
			return a.Emit(v, names, text)
		}),
	}
}

func (a verbs) clusterGet() *cobra.Command {
	return a.clusterReader("get NAME", "Read a cluster", "  pawl cluster get blue -o yaml", func(ctx context.Context, remote *client.Client, id string) (any, func() string, error) {
		c, err := remote.GetCluster(ctx, id)
		return c, func() string { return view.ClusterTable([]view.Cluster{c}, time.Now()).Text(a.Style(a.Out)) }, err
	})
}

func (a verbs) clusterDescribe() *cobra.Command {
	return a.clusterReader("describe NAME", "Show all that is known of a cluster", "  pawl cluster describe blue", func(ctx context.Context, remote *client.Client, id string) (any, func() string, error) {
		c, err := remote.GetCluster(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		nodes, err := remote.ClusterNodes(ctx, c.ID)
		if err != nil {
			return nil, nil, err
		}
		events, err := clusterHistory(ctx, remote, c.ID)
		if err != nil {
			return nil, nil, err
		}
		v := struct {
			view.Cluster
			Nodes   []view.ClusterNode  `json:"nodes"`
			History []view.ClusterEvent `json:"history"`
		}{c, nodes.Items, events}
		newest := events[max(0, len(events)-20):]
		return v, func() string { return view.DescribeCluster(c, nodes.Items, newest, time.Now(), a.Style(a.Out)) }, nil
	})
}

func (a verbs) clusterWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch NAME", Short: "Print what happens to a cluster until you interrupt it", Example: "  pawl cluster watch blue",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeClusters,
		RunE: a.WithServer(func(ctx context.Context, remote *client.Client, args []string) error {
			c, err := remote.GetCluster(ctx, args[0]) // a name may pass to another cluster; an id does not
			if err != nil {
				return err
			}
			return a.every(ctx, true, func() (any, []string, cli.Drawing, error) {
				c, err := remote.GetCluster(ctx, c.ID)
				return c, []string{c.Name}, cli.Fixed(view.ClusterLine(c) + "\n"), err
			})
		}),
	}
	return cmd
}

// clusterHistory reads all events of a cluster.
func clusterHistory(ctx context.Context, remote *client.Client, id string) ([]view.ClusterEvent, error) {
	return client.All(func(cursor string) (client.Items[view.ClusterEvent], error) {
		return remote.ClusterHistory(ctx, id, client.ClusterHistoryParams{Cursor: cursor})
	})
}

func (a verbs) clusterDrift() *cobra.Command {
	return a.clusterReader("drift NAME", "Compare what is desired, recorded and observed", "  pawl cluster drift blue", func(ctx context.Context, remote *client.Client, id string) (any, func() string, error) {
		report, err := remote.ClusterDrift(ctx, id)
		return report, func() string { return view.ClusterDrift(report, time.Now(), a.Style(a.Out)) }, err
	})
}

// nodeList and resourceList are lists whose entries have names.
type (
	nodeList     client.Items[view.ClusterNode]
	resourceList client.Items[view.ClusterResource]
)

func (l nodeList) names() []string {
	return cli.NamesOf(l.Items, func(n view.ClusterNode) string { return n.Name })
}

func (l resourceList) names() []string {
	return cli.NamesOf(l.Items, func(r view.ClusterResource) string { return r.Name })
}

func (a verbs) clusterNodes() *cobra.Command {
	return a.clusterReader("nodes NAME", "List the nodes of a cluster", "  pawl cluster nodes blue", func(ctx context.Context, remote *client.Client, id string) (any, func() string, error) {
		nodes, err := remote.ClusterNodes(ctx, id)
		return nodeList(nodes), func() string { return view.ClusterNodeTable(nodes.Items, time.Now()).Text(a.Style(a.Out)) }, err
	})
}

func (a verbs) clusterResources() *cobra.Command {
	return a.clusterReader("resources NAME", "Read the journal of a cluster: all that was made for it", "  pawl cluster resources blue", func(ctx context.Context, remote *client.Client, id string) (any, func() string, error) {
		rows, err := remote.ClusterResources(ctx, id)
		return resourceList(rows), func() string { return view.ClusterResourceTable(rows.Items).Text(a.Style(a.Out)) }, err
	})
}

func (a verbs) clusterHistory() *cobra.Command {
	return a.clusterReader("history NAME", "Read what happened to a cluster", "  pawl cluster history blue", func(ctx context.Context, remote *client.Client, id string) (any, func() string, error) {
		events, err := clusterHistory(ctx, remote, id)
		return client.Items[view.ClusterEvent]{Items: events}, func() string { return view.ClusterHistory(events, a.Style(a.Out)) }, err
	})
}

func (a verbs) clusterConfig() *cobra.Command {
	return a.clusterReader("config NAME", "Print how a cluster is reached; history notes that it was read", "  pawl cluster config blue > blue.yaml", func(ctx context.Context, remote *client.Client, id string) (any, func() string, error) {
		config, err := remote.ClusterConfig(ctx, id)
		return config, func() string { return config.Config }, err
	})
}

func (a verbs) clusterLogs() *cobra.Command {
	var lines int
	cmd := &cobra.Command{
		Use: "logs NAME NODE", Short: "Print what a node wrote last", Example: "  pawl cluster logs blue blue-1f0c2a-control1 --lines 20", Args: cobra.ExactArgs(2),
		ValidArgsFunction: a.completeNodes,
		RunE: a.WithServer(func(ctx context.Context, remote *client.Client, args []string) error {
			logs, err := remote.ClusterLogs(ctx, args[0], client.ClusterLogsParams{Node: args[1], Lines: lines})
			if err != nil {
				return err
			}
			if !a.IsText() {
				return a.Emit(map[string]string{"node": args[1], "text": logs.Text}, []string{args[1]}, nil)
			}
			_, err = io.WriteString(a.Out, logs.Text)
			return err
		}),
	}
	cmd.Flags().IntVar(&lines, "lines", 100, "at most so many")
	return cmd
}

func (a verbs) clusterLeaks() *cobra.Command {
	var id, kind string
	cmd := &cobra.Command{
		Use: "leaks", Short: "List what could not be deleted (operators)", Example: "  pawl cluster leaks\n  pawl cluster leaks --kind vm -o json", Args: cobra.NoArgs,
		RunE: a.WithServer(func(ctx context.Context, remote *client.Client, _ []string) error {
			leaks, err := client.All(func(cursor string) (client.Items[api.Leak], error) {
				return remote.ListLeaks(ctx, client.ListLeaksParams{Cluster: id, Kind: kind, Cursor: cursor})
			})
			if err != nil {
				return err
			}
			names := cli.NamesOf(leaks, func(l api.Leak) string { return l.Resource })
			return a.Emit(cli.ListOf(leaks), names, func() string {
				if len(leaks) == 0 {
					return "Nothing has leaked.\n"
				}
				return view.LeakTable(leaks, time.Now()).Text(a.Style(a.Out))
			})
		}),
	}
	cmd.Flags().StringVar(&id, "cluster", "", "only of this `cluster`, by id or name")
	cmd.Flags().StringVar(&kind, "kind", "", "only this `kind` of resource")
	cli.SetCompletions(cmd, map[string]cli.Completion{"kind": cli.FixedCompletion(cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer, cluster.KeyPair)})
	return cmd
}

// catalogKinds are what providers offer.
var catalogKinds = []string{"zone", "offering", "template", "network", "networkoffering", "keypair", "version"}

// sizeText formats a number of cores or MB; 0, as of a zone, shows a dash.
func sizeText(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}

func (a verbs) clusterCatalog() *cobra.Command {
	return &cobra.Command{
		Use: "catalog KIND", Short: "List what the providers offer: zones, offerings, templates, networks, versions",
		Example: "  pawl cluster catalog offering", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.FixedCompletions(catalogKinds, cobra.ShellCompDirectiveNoFileComp),
		RunE: a.WithServer(func(ctx context.Context, remote *client.Client, args []string) error {
			catalog, err := remote.Catalog(ctx, args[0])
			if err != nil {
				return err
			}
			type entry = view.CatalogEntry
			return cli.EmitList(a.App, catalog.Items, func(e entry) string { return e.ID }, "", []view.Column[entry]{
				{Head: "ID", Cell: func(e entry) string { return e.ID }},
				{Head: "NAME", Cell: func(e entry) string { return e.Name }},
				{Head: "ZONE", Cell: func(e entry) string { return cmp.Or(e.Zone, "–") }},
				{Head: "CORES", Cell: func(e entry) string { return sizeText(e.Cores) }},
				{Head: "MEMORY", Cell: func(e entry) string { return sizeText(e.MemoryMB) }},
				{Head: "DEFAULT", Cell: func(e entry) string { return strconv.FormatBool(e.Default) }},
			})
		}),
	}
}
