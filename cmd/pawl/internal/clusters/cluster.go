package clusters

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/accounts"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/secretfile"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/view"
)

// clusterCommand is the tree of verbs for container clusters. They send
// requests to a server, which does the work: the one on this machine by default.
func (a verbs) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", Short: "Create, change, look at and delete container clusters",
		Long: `Container clusters are control nodes, worker nodes, a network and rules on an
infrastructure without transactions. These verbs ask a server (--server; by
default the one on this machine, http://` + server.DefaultListen + `).

A change answers at once. --wait waits until it is decided: exit code 0 done,
1 failed or refused, 3 still going when the wait ended, 4 the cluster is in Alert.
--dry-run prints the plan: exit code 2 if something stands in the way.`,
		Example: "  pawl cluster create blue --zone local --offering small --size 2 --wait\n  pawl cluster list\n  pawl cluster scale blue --size 4 --dry-run\n  pawl cluster delete blue --wait",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.clusterCreate(), a.clusterList(), a.clusterGet(), a.clusterDescribe(), a.clusterWatch(),
		a.clusterStart(), a.clusterStop(), a.clusterScale(), a.clusterUpgrade(), a.clusterRecover(), a.clusterDelete(), a.clusterSet(),
		a.clusterDrift(), a.clusterNodes(), a.clusterResources(), a.clusterConfig(), a.clusterHistory(), a.clusterLogs(),
		a.clusterLeaks(), a.clusterForget(), a.clusterCatalog())
	return cmd
}

// changing are the flags of every change.
type changing struct {
	wait time.Duration
	dry  bool
}

func (c *changing) flags(cmd *cobra.Command) {
	cli.WaitFlag(cmd, &c.wait, 0, "wait until it is decided, at most this `time`")
	cmd.Flags().BoolVar(&c.dry, "dry-run", false, "print the plan; nothing is changed")
}

// carryOut requests a change and waits for it, or prints its plan.
func (a verbs) carryOut(ctx context.Context, c *client.Client, o changing, plan client.PlanRequest) error {
	if o.dry {
		return a.showPlan(ctx, c, plan)
	}
	var done client.Accepted
	var err error
	if plan.Create != nil {
		done, err = c.CreateCluster(ctx, *plan.Create, client.CreateClusterParams{})
	} else {
		done, err = changeCluster(ctx, c, *plan.Change)
	}
	if err != nil {
		return err
	}
	return a.settle(ctx, c, done, o.wait)
}

// changeCluster requests what a plan describes, of any revision.
func changeCluster(ctx context.Context, c *client.Client, p client.ChangePlan) (client.Accepted, error) {
	body := client.ChangeClusterRequest{
		AllowDowntime: p.AllowDowntime, Consent: p.Consent, Forced: p.Forced, Recovery: p.Recovery, Surge: p.Surge, Version: p.Version,
	}
	switch cluster.RequestKind(p.Kind) {
	case cluster.RequestStart:
		return c.StartCluster(ctx, p.Cluster, body, client.StartClusterParams{})
	case cluster.RequestStop:
		return c.StopCluster(ctx, p.Cluster, body, client.StopClusterParams{})
	case cluster.RequestUpgrade:
		return c.UpgradeCluster(ctx, p.Cluster, body, client.UpgradeClusterParams{})
	case cluster.RequestRecover:
		return c.RecoverCluster(ctx, p.Cluster, body, client.RecoverClusterParams{})
	case cluster.RequestScale:
		return c.ScaleCluster(ctx, p.Cluster, client.ScaleClusterRequest{Size: p.Size, Nodes: p.Nodes, Autoscale: p.Autoscale}, client.ScaleClusterParams{})
	case cluster.RequestDelete:
		return c.DeleteCluster(ctx, p.Cluster, client.DeleteClusterParams{IfMatch: "*", Forced: p.Forced})
	case "forget":
		return c.ForgetCluster(ctx, p.Cluster, client.ForgetClusterRequest{Confirm: p.Confirm}, client.ForgetClusterParams{})
	default:
		return c.PatchCluster(ctx, p.Cluster, p.Settings, client.PatchClusterParams{IfMatch: "*"})
	}
}

type createFlags struct {
	changing
	description, zone, offering, template, network, keyPair, version, provider string
	account, domain, recovery, onFailure                                       string
	registryUser, registryPasswordFile, registryURL, registryEmail             string
	size, control, disk                                                        int
	cidrs                                                                      []string
}

func (a verbs) clusterCreate() *cobra.Command {
	var o createFlags
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use: "create NAME", Short: "Create a cluster",
		Long: `Creates a cluster of control nodes and --size workers. What is not named is
found: the only zone and offering, the default template, a network of its own.
pawl cluster catalog lists what there is to choose from.`,
		Example: "  pawl cluster create blue --size 2 --wait\n  pawl cluster create blue --zone z1 --offering small --size 5 --control-nodes 3 --recovery restart,replace --dry-run",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.WithServer(func(ctx context.Context, c *client.Client, args []string) error {
			body, err := o.body(ctx, c, args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("disk") {
				body.DiskGB = &o.disk
			}
			return a.carryOut(ctx, c, o.changing, client.PlanRequest{Create: &body})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.description, "description", "", "what it is for")
	f.StringVar(&o.zone, "zone", "", "`zone`, by id or name (default: the only one)")
	f.StringVar(&o.offering, "offering", "", "size of its VMs, by id or name (default: the only or default `offering`)")
	f.StringVar(&o.template, "template", "", "`template` of its VMs (default: that of the version, or of the server)")
	f.StringVar(&o.network, "network", "", "`network` to use (default: one is made)")
	f.StringVar(&o.keyPair, "key-pair", "", "key pair for its VMs")
	f.StringVar(&o.version, "version-id", "", "configured `version` of what runs on the nodes")
	f.StringVar(&o.provider, "provider", "", "`provider` (default: that of the zone)")
	f.StringVar(&o.account, "account", "", "create it for this `account`, with --domain")
	f.StringVar(&o.domain, "domain", "", "the account's domain: id or `path`")
	f.IntVar(&o.size, "size", 1, "workers")
	f.IntVar(&o.control, "control-nodes", 1, "control nodes, an odd number")
	f.IntVar(&o.disk, "disk", 0, "`GB` of a node's root disk (default: the template decides)")
	f.StringSliceVar(&o.cidrs, "cidr", nil, "`networks` that may reach the endpoint (default: all)")
	f.StringVar(&o.recovery, "recovery", "", "what may be repaired without you: none, or of restart, replace, adopt")
	f.StringVar(&o.onFailure, "on-failure", "", "of the creation: rollback, lazy or keep")
	f.StringVar(&o.registryUser, "registry-username", "", "of the image registry; all four or none")
	f.StringVar(&o.registryPasswordFile, "registry-password-file", "", "`file` with the password; only its owner may read it")
	f.StringVar(&o.registryURL, "registry-url", "", "of the image registry")
	f.StringVar(&o.registryEmail, "registry-email", "", "of its account")
	o.changing.flags(cmd)
	cli.SetCompletions(cmd, map[string]cli.Completion{
		"zone": a.completeCatalog("zone"), "offering": a.completeCatalog("offering"), "template": a.completeCatalog("template"),
		"network": a.completeCatalog("network"), "key-pair": a.completeCatalog("keypair"), "version-id": a.completeCatalog("version"),
		"recovery": completeRecovery, "on-failure": completeOnFailure, "domain": accounts.CompleteDomains(a.App),
	})
	return cmd
}

// body is the body of the request.
func (o *createFlags) body(ctx context.Context, c *client.Client, name string) (body client.CreateClusterRequest, err error) {
	body = client.CreateClusterRequest{
		Name: name, Size: o.size, ControlNodes: &o.control, Description: o.description, Template: o.template, Network: o.network, KeyPair: o.keyPair,
		Version: o.version, Provider: o.provider, Account: o.account, DomainID: o.domain, OnFailure: o.onFailure, Cidrs: o.cidrs,
	}
	if body.Zone, err = only(ctx, c, "zone", o.zone); err != nil {
		return body, err
	}
	if body.Offering, err = only(ctx, c, "offering", o.offering); err != nil {
		return body, err
	}
	if o.recovery != "" {
		if body.Recovery, err = policy(o.recovery); err != nil {
			return body, err
		}
	}
	if o.registryUser+o.registryURL+o.registryEmail+o.registryPasswordFile != "" {
		password := ""
		if o.registryPasswordFile != "" {
			if password, err = secretfile.Secret(o.registryPasswordFile); err != nil {
				return body, err
			}
		}
		body.Registry = &client.Registry{Username: o.registryUser, Password: password, URL: o.registryURL, Email: o.registryEmail}
	}
	return body, nil
}

// only returns the given name, or the only choice.
func only(ctx context.Context, c *client.Client, kind, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	catalog, err := c.Catalog(ctx, kind)
	if err != nil {
		return "", err
	}
	entries := catalog.Items
	var names []string
	for _, e := range entries {
		if e.Default {
			return e.ID, nil
		}
		names = append(names, e.Name)
	}
	if len(entries) != 1 {
		return "", cli.Usage.Errorf("name one with --%s: there are %s", kind, strings.Join(names, ", "))
	}
	return entries[0].ID, nil
}

// policy reads a recovery policy.
func policy(text string) ([]string, error) {
	r, err := cluster.ParseRecovery(text)
	words := []string{}
	for _, word := range r {
		words = append(words, string(word))
	}
	return words, err
}

// change is a verb that requests a change. flags adds its flags and returns what fills
// the change from them.
func (a verbs) change(use, short, example string, kind cluster.RequestKind, flags func(*cobra.Command) func(*client.ChangePlan) error) *cobra.Command {
	var o changing
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeClusters}
	fill := flags(cmd)
	cmd.RunE = a.WithServer(func(ctx context.Context, c *client.Client, args []string) error {
		p := client.ChangePlan{Cluster: args[0], Kind: string(kind)}
		if err := fill(&p); err != nil {
			return err
		}
		return a.carryOut(ctx, c, o, client.PlanRequest{Change: &p})
	})
	o.flags(cmd)
	return cmd
}

func (a verbs) clusterStart() *cobra.Command {
	return a.change("start NAME", "Start a cluster that is stopped, or try again", "  pawl cluster start blue --wait", cluster.RequestStart, func(*cobra.Command) func(*client.ChangePlan) error {
		return func(*client.ChangePlan) error { return nil }
	})
}

func (a verbs) clusterStop() *cobra.Command {
	return a.change("stop NAME", "Stop the VMs of a cluster", "  pawl cluster stop blue --wait", cluster.RequestStop, forced)
}

// forced is the flag of a stop and of a deletion.
func forced(cmd *cobra.Command) func(*client.ChangePlan) error {
	forced := cmd.Flags().Bool("forced", false, "do not wait for the nodes to drain")
	return func(p *client.ChangePlan) error {
		p.Forced = *forced
		return nil
	}
}

func (a verbs) clusterScale() *cobra.Command {
	return a.change("scale NAME", "Change the number of workers, or remove some by name",
		"  pawl cluster scale blue --size 5 --wait\n  pawl cluster scale blue --node blue-1f0c2a-worker3\n  pawl cluster scale blue --autoscale 2..8", cluster.RequestScale,
		func(cmd *cobra.Command) func(*client.ChangePlan) error {
			size := cmd.Flags().Int("size", 0, "workers")
			nodes := cmd.Flags().StringSlice("node", nil, "names or ids of the `workers` to remove")
			auto := cmd.Flags().String("autoscale", "", "what an autoscaler may do: `MIN..MAX`, or off")
			cli.SetCompletions(cmd, map[string]cli.Completion{"node": a.completeWorkers, "autoscale": cli.FixedCompletion("off")})
			cmd.MarkFlagsMutuallyExclusive("size", "node", "autoscale")
			cmd.MarkFlagsOneRequired("size", "node", "autoscale")
			return func(p *client.ChangePlan) (err error) {
				if *size != 0 {
					p.Size = size
				}
				p.Nodes = *nodes
				p.Autoscale, err = autoscale(*auto)
				return err
			}
		})
}

// autoscale reads MIN..MAX or off; nil for "".
func autoscale(text string) (*client.Autoscale, error) {
	switch text {
	case "":
		return nil, nil
	case "off":
		return &client.Autoscale{}, nil
	}
	least, most, both := strings.Cut(text, "..")
	from, bad := strconv.Atoi(least)
	to, worse := strconv.Atoi(most)
	if !both || bad != nil || worse != nil {
		return nil, cli.Usage.Errorf("--autoscale %s: it is MIN..MAX, such as 2..8, or off", text)
	}
	return &client.Autoscale{Enabled: true, Min: from, Max: to}, nil
}

func (a verbs) clusterUpgrade() *cobra.Command {
	return a.change("upgrade NAME", "Bring the nodes to another version one by one, control nodes first",
		"  pawl cluster upgrade blue --to v1.31 --dry-run\n  pawl cluster upgrade blue --to v1.31 --allow-downtime --wait", cluster.RequestUpgrade, func(cmd *cobra.Command) func(*client.ChangePlan) error {
			version := cmd.Flags().String("to", "", "id of the configured `version`")
			surge := cmd.Flags().Int("surge", 1, "nodes added at a time")
			downtime := cmd.Flags().Bool("allow-downtime", false, "the only control node may be upgraded in place, while the endpoint does not answer")
			consent := cmd.Flags().Bool("consent", false, "the only control node may be replaced; what it holds is lost")
			cli.SetCompletions(cmd, map[string]cli.Completion{"to": a.completeCatalog("version")})
			_ = cmd.MarkFlagRequired("to")
			return func(p *client.ChangePlan) error {
				p.Version, p.Surge, p.Consent, p.AllowDowntime = *version, surge, *consent, *downtime
				return nil
			}
		})
}

func (a verbs) clusterRecover() *cobra.Command {
	return a.change("recover NAME", "Repair a cluster that is in Alert", "  pawl cluster recover blue --recovery restart,replace --wait",
		cluster.RequestRecover, func(cmd *cobra.Command) func(*client.ChangePlan) error {
			text := cmd.Flags().String("recovery", "", "what may be done this time, of restart, replace, adopt (default restart,replace)")
			cli.SetCompletions(cmd, map[string]cli.Completion{"recovery": completeRecovery})
			consent := cmd.Flags().Bool("consent", false, "the last control node may be replaced; what it holds is lost")
			return func(p *client.ChangePlan) (err error) {
				if p.Consent = *consent; *text != "" {
					p.Recovery, err = policy(*text)
				}
				return err
			}
		})
}

func (a verbs) clusterDelete() *cobra.Command {
	cmd := a.change("delete NAME", "Delete a cluster and all that was made for it", "  pawl cluster delete blue --wait\n  pawl cluster delete blue --dry-run", cluster.RequestDelete, forced)
	cmd.Long = `Stops the cluster and deletes all that was made for it; what was given stays.
What cannot be deleted now is tried again by the collector until it is gone.`
	return cmd
}

// settings is the merge patch of a cluster. What is absent stays; a recovery that is null
// is that of the server.
type settings struct {
	Description *string         `json:"description,omitzero"`
	Recovery    json.RawMessage `json:"recovery,omitzero"`
	OnFailure   string          `json:"onFailure,omitzero"`
	CIDRs       []string        `json:"cidrs,omitzero"`
	GC          *bool           `json:"gc,omitzero"`
}

func (a verbs) clusterSet() *cobra.Command {
	var o changing
	var description, recovery, onFailure, gc string
	var cidrs []string
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Change settings of a cluster",
		Example: "  pawl cluster set blue --recovery restart,replace\n  pawl cluster set blue --cidr 10.0.0.0/8,192.0.2.0/24\n  pawl cluster set blue --gc off\n  pawl cluster set blue --recovery none --dry-run",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeClusters,
	}
	f := cmd.Flags()
	f.StringVar(&description, "description", "", "what it is for")
	f.StringVar(&recovery, "recovery", "", "none, default, or of restart, replace, adopt")
	f.StringVar(&onFailure, "on-failure", "", "of a creation under way: rollback, lazy or keep")
	f.StringSliceVar(&cidrs, "cidr", nil, "`networks` that may reach the endpoint")
	f.StringVar(&gc, "gc", "", "on or off: whether the collector works on it (operators)")
	cli.SetCompletions(cmd, map[string]cli.Completion{"recovery": cli.FixedCompletion("default", "none", "restart", "restart,replace", "restart,replace,adopt"), "on-failure": completeOnFailure, "gc": cli.FixedCompletion("on", "off")})
	cmd.MarkFlagsOneRequired("description", "recovery", "on-failure", "cidr", "gc")
	cmd.RunE = a.WithServer(func(ctx context.Context, c *client.Client, args []string) error {
		var body settings
		if f.Changed("description") {
			body.Description = &description
		}
		if recovery == "default" {
			body.Recovery = json.RawMessage("null")
		} else if recovery != "" {
			p, err := policy(recovery)
			if err != nil {
				return err
			}
			if body.Recovery, err = json.Marshal(p); err != nil {
				return err
			}
		}
		body.OnFailure = onFailure
		if f.Changed("cidr") {
			body.CIDRs = cidrs
		}
		switch gc {
		case "":
		case "on", "off":
			body.GC = new(gc == "on")
		default:
			return cli.Usage.Errorf("--gc %s: it is on or off", gc)
		}
		patch, err := json.Marshal(body)
		if err != nil {
			return err
		}
		return a.carryOut(ctx, c, o, client.PlanRequest{Change: &client.ChangePlan{Cluster: args[0], Kind: "set", Settings: patch}})
	})
	o.flags(cmd)
	return cmd
}

func (a verbs) clusterForget() *cobra.Command {
	cmd := a.change("forget NAME", "Give up what could not be deleted (operators)",
		"  pawl cluster forget blue --confirm blue\n  pawl cluster forget blue --confirm blue --dry-run", "forget", func(cmd *cobra.Command) func(*client.ChangePlan) error {
			confirm := cmd.Flags().String("confirm", "", "`name` of the cluster, as a sign that you mean it")
			_ = cmd.MarkFlagRequired("confirm")
			return func(p *client.ChangePlan) error {
				p.Confirm = *confirm
				return nil
			}
		})
	cmd.Long = `Of a cluster in Expunge: nothing is deleted any more, the cluster becomes
Destroyed, and what is left stays in the leak report. --confirm is its name.`
	return cmd
}

func (a verbs) showPlan(ctx context.Context, c *client.Client, body client.PlanRequest) error {
	answer, err := c.Plan(ctx, body, client.PlanParams{})
	switch {
	case err != nil && view.ProblemOf(err).Code == cluster.StateRefused.Code: // the change is refused, as with bad input
		a.Fail(ctx, err)
		return cli.End(view.ExitUsage)
	case err != nil:
		return err
	}
	plan := answer.Cluster
	if err := a.Emit(plan, nil, func() string { return view.ClusterPlan(*plan, a.Style(a.Out)) }); err != nil {
		return err
	}
	if plan.Err() != nil {
		return cli.End(view.ExitUsage)
	}
	return nil
}
