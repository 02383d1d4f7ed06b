// Package foundationdb has the verbs of pawl for FoundationDB clusters.
//
//	flags ─▶ source: a Kubernetes cluster, or files ─▶ Facts ─▶ report ─▶ text, JSON or YAML
//	              └─▶ change: what is said first, asked for, and then written to the object
//
// A verb that changes something edits the object, so that the operator does it with its gates. Only repairs, for which
// the operator or the database is what is broken, run fdbcli in a pod of the cluster.
package foundationdb

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/manifest"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command { return []*cobra.Command{verbs{a}.group()} }

type verbs struct{ *cli.App }

func (a verbs) group() *cobra.Command {
	group := &cobra.Command{
		Use: "fdb", Short: "Look after FoundationDB clusters: analyze, plan, replace, back up, repair",
		Long: `Looks after FoundationDBCluster, FoundationDBBackup and FoundationDBRestore objects of a
Kubernetes cluster. A CLUSTER may be left out where the namespace has only one.

Verbs that change something write to the object, so that the operator does it, with its
gates: they say first what will happen and what may be lost, and ask; -y answers, --dry-run
only tells. Repairs run fdbcli in a pod of the cluster.

Verbs that only read take --objects and --status-file: files in place of a Kubernetes
cluster and of the database.

get, describe, watch and plan take fdb NAME as any other kind.`,
		Example: "  pawl fdb analyze\n  pawl fdb plan orders\n  pawl fdb explain storage-4 -c orders\n  pawl fdb remove process-groups -c orders storage-4",
	}
	group.AddCommand(
		a.analyzeCommand(), a.planCommand(), a.explainCommand(), a.exclusionStatusCommand(), a.getCommand(), a.configurationCommand(),
		a.deprecationCommand(), a.versionCommand(),
		a.removeCommand(), a.cordonCommand(), a.buggifyCommand(), a.approveCommand(), a.holdCommand(), a.maintenanceCommand(),
		a.backupCommand(), a.restoreCommand(),
		a.excludeCommand(), a.includeCommand(), a.restartCommand(), a.execCommand(), a.cliCommand(),
		a.fixCoordinatorIPsCommand(), a.updateCommand(), a.recoverCommand(),
	)
	return group
}

// verb makes a verb of a cluster.
func (a verbs) verb(use, short, example string, args cobra.PositionalArgs, do func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: args, ValidArgsFunction: a.completeClusters,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error { return do(ctx, args) }),
	}
}

// optional is the argument that may be left out.
func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (a verbs) analyzeCommand() *cobra.Command {
	var w where
	var how cli.Confirmation
	var fix, everywhere bool
	cmd := a.verb("analyze [CLUSTER]", "Say what is wrong with clusters, and the command that mends it",
		"  pawl fdb analyze orders\n  pawl fdb analyze --all-clusters -A\n  pawl fdb analyze orders --fix\n  pawl fdb analyze --objects dump.yaml --status-file status.json",
		cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error {
			return a.analyze(ctx, w, optional(args), everywhere, fix, how)
		})
	cmd.Long = `Reads the objects, the pods and, through a pod, the status of the database. Exit code 0:
nothing needs somebody, 4: something does.

--fix marks the groups for removal that have failed for good, so that others are made in
their place.`
	w.namespaceFlag(cmd)
	w.allFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	cmd.Flags().BoolVar(&everywhere, "all-clusters", false, "all clusters of the namespace, which is the default without CLUSTER")
	cmd.Flags().BoolVar(&fix, "fix", false, "then mark failed groups for removal")
	how.AddFlags(cmd)
	return cmd
}

func (a verbs) analyze(ctx context.Context, w where, name string, everywhere, fix bool, how cli.Confirmation) error {
	if everywhere && name != "" {
		return cli.Usage.Errorf("give CLUSTER or --all-clusters, not both")
	}
	s, err := a.open(ctx, w)
	if err != nil {
		return err
	}
	defer s.Close()
	found, err := s.clusters(ctx, name)
	if err != nil {
		return err
	}
	if w.status != "" && len(found) > 1 {
		return cli.Usage.Errorf("--status-file is that of one cluster: name it")
	}
	all := []report.Analysis{}
	var text strings.Builder
	exit := 0
	for _, c := range found {
		analysis := report.Analyze(s.facts(ctx, c, true))
		all = append(all, analysis)
		text.WriteString(analysis.Text())
		exit = max(exit, analysis.Exit())
	}
	if len(found) == 0 {
		text.WriteString("there is no FoundationDBCluster in " + s.place() + "\n")
	}
	if err := a.Emit(cli.ListOf(all), cli.NamesOf(all, func(one report.Analysis) string { return one.Cluster }), text.String); err != nil {
		return err
	}
	if fix {
		return a.fix(ctx, s, found, all, how)
	}
	return cli.End(exit)
}

// fix marks the groups that have failed for good.
func (a verbs) fix(ctx context.Context, s *source, found []*v1beta2.FoundationDBCluster, all []report.Analysis, how cli.Confirmation) error {
	var changes []change
	for i, c := range found {
		var ids []v1beta2.ProcessGroupID
		for _, finding := range all[i].Findings {
			if finding.Replaces {
				for _, id := range finding.Groups {
					ids = append(ids, v1beta2.ProcessGroupID(id))
				}
			}
		}
		if len(ids) > 0 {
			changes = append(changes, removal(c, ids, nil))
		}
	}
	if len(changes) == 0 {
		a.Say("there is nothing that --fix mends")
		return nil
	}
	return a.carryOut(ctx, s, changes, how)
}

func (a verbs) planCommand() *cobra.Command {
	var w where
	var manifests []string
	cmd := a.verb("plan [CLUSTER] | -f MANIFEST", "Say what the operator does next, and why not now",
		"  pawl fdb plan orders\n  pawl fdb plan -f orders.yaml\n  pawl fdb plan -f orders.yaml --objects dump.yaml --status-file status.json",
		cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error { return a.plan(ctx, w, optional(args), manifests) })
	cmd.Long = `Prints the plan that the operator has made. With -f it says what the operator would do if
the manifest were applied: nothing is written. The plan is then made here by the same
judgements, from the objects and from the status of the database; so it is with --objects.`
	w.namespaceFlag(cmd)
	w.allFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	cmd.Flags().StringSliceVarP(&manifests, "filename", "f", nil, "`manifest` of a cluster, - for standard input")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	return cmd
}

func (a verbs) plan(ctx context.Context, w where, name string, manifests []string) error {
	if len(manifests) > 0 && name != "" {
		return cli.Usage.Errorf("give CLUSTER or -f MANIFEST, not both")
	}
	s, err := a.open(ctx, w)
	if err != nil {
		return err
	}
	defer s.Close()
	plans := []report.Plan{}
	if len(manifests) > 0 {
		read, err := manifest.ReadManifests(manifests, a.In)
		if err != nil {
			return err
		}
		if plans, err = a.planManifests(ctx, s, w, read); err != nil {
			return err
		}
	} else {
		found, err := s.clusters(ctx, name)
		if err != nil {
			return err
		}
		for _, c := range found {
			p := report.PlanOf(c)
			if w.status != "" {
				if p, err = s.plan(ctx, c); err != nil {
					return err
				}
			}
			plans = append(plans, p)
		}
	}
	return a.emitPlans(s, plans)
}

func (a verbs) emitPlans(s *source, plans []report.Plan) error {
	var text strings.Builder
	for _, p := range plans {
		text.WriteString(p.Text(s.now(), a.Style(a.Out)))
	}
	if len(plans) == 1 {
		return a.Emit(plans[0], []string{plans[0].Cluster}, text.String)
	}
	return a.Emit(cli.ListOf(plans), cli.NamesOf(plans, func(p report.Plan) string { return p.Cluster }), text.String)
}

func (a verbs) explainCommand() *cobra.Command {
	var w where
	var cluster string
	cmd := a.verb("explain GROUP", "Say why a process group is where it is, gate by gate", "  pawl fdb explain storage-4\n  pawl fdb explain storage-4 -c orders -n prod",
		cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
			s, err := a.open(ctx, w)
			if err != nil {
				return err
			}
			defer s.Close()
			c, err := s.clusterOf(ctx, cluster, args[:1])
			if err != nil {
				return err
			}
			v, err := report.Explain(s.facts(ctx, c, true), v1beta2.ProcessGroupID(args[0]))
			if err != nil {
				return err
			}
			return a.Emit(v, []string{v.Group.ID}, func() string { return v.Text(s.now()) })
		})
	cmd.ValidArgsFunction = a.completeGroups
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	a.clusterFlag(cmd, &cluster)
	return cmd
}

func (a verbs) exclusionStatusCommand() *cobra.Command {
	var w where
	var watch bool
	cmd := a.verb("exclusion-status [CLUSTER]", "Say what is left on groups that are excluded or marked for removal",
		"  pawl fdb exclusion-status orders\n  pawl fdb exclusion-status orders --watch --timeout 1h", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			return a.exclusionStatus(ctx, w, optional(args), watch)
		})
	cmd.Long = "Exit code 0: nothing is left to move. 3: data moves."
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until nothing is left to move, and print what changes")
	return cmd
}

// watchPause is the time between two looks at the database.
const watchPause = 10 * time.Second

func (a verbs) exclusionStatus(ctx context.Context, w where, name string, watch bool) error {
	s, err := a.open(ctx, w)
	if err != nil {
		return err
	}
	defer s.Close()
	printed := ""
	for {
		c, err := s.cluster(ctx, name)
		if err != nil {
			return cli.WatchEnded(ctx, err)
		}
		v := report.Exclusions(s.facts(ctx, c, true))
		if text := v.Text(s.now(), a.Style(a.Out)); text != printed {
			printed = text
			if err := a.Emit(v, cli.NamesOf(v.Exclusions, func(e report.Exclusion) string { return e.Group }), func() string { return text }); err != nil {
				return err
			}
		}
		if !watch || !v.Left() || s.backend == nil {
			return cli.End(v.Exit())
		}
		select {
		case <-ctx.Done():
			return cli.End(v.Exit())
		case <-time.After(watchPause):
		}
	}
}

func (a verbs) getCommand() *cobra.Command {
	group := &cobra.Command{Use: "get", Short: "Show a part of a cluster", Example: "  pawl fdb get configuration orders"}
	group.AddCommand(a.readConfigurationCommand("configuration [CLUSTER]", "  pawl fdb get configuration orders\n  pawl fdb get configuration orders -o json"))
	return group
}

func (a verbs) readConfigurationCommand(use, example string) *cobra.Command {
	var w where
	cmd := a.verb(use, "Show the configuration of a database: live, wanted, the stages between, and what blocks the next", example,
		cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error { return a.showConfiguration(ctx, w, optional(args)) })
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	return cmd
}

func (a verbs) showConfiguration(ctx context.Context, w where, name string) error {
	s, err := a.open(ctx, w)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}
	v := report.Configure(s.facts(ctx, c, true))
	return a.Emit(v, []string{v.Cluster}, v.Text)
}

func (a verbs) deprecationCommand() *cobra.Command {
	var w where
	cmd := a.verb("deprecation [CLUSTER]", "List fields that go away or have no effect, and what to write instead",
		"  pawl fdb deprecation -A\n  pawl fdb deprecation --objects clusters.yaml", cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error {
			s, err := a.open(ctx, w)
			if err != nil {
				return err
			}
			defer s.Close()
			found, err := s.clusters(ctx, optional(args))
			if err != nil {
				return err
			}
			all := []report.Deprecation{}
			for _, c := range found {
				all = append(all, report.Deprecated(c)...)
			}
			return a.Emit(cli.ListOf(all), cli.NamesOf(all, func(d report.Deprecation) string { return d.Cluster + " " + d.Field }), func() string {
				if len(all) == 0 {
					return "no field that goes away is in use\n"
				}
				return report.DeprecationTable(all).Text(a.Style(a.Out))
			})
		})
	w.namespaceFlag(cmd)
	w.allFlag(cmd)
	w.objectsFlag(cmd)
	return cmd
}

func (a verbs) versionCommand() *cobra.Command {
	var w where
	cmd := a.verb("version [CLUSTER]", "Show the versions of pawl and of clusters", "  pawl fdb version\n  pawl fdb version -A -o json", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			s, err := a.open(ctx, w)
			if err != nil {
				return err
			}
			defer s.Close()
			found, err := s.clusters(ctx, optional(args))
			if err != nil {
				return err
			}
			type versions struct {
				Pawl     string            `json:"pawl"`
				Clusters []report.Versions `json:"clusters"`
			}
			v := versions{a.VersionText(), []report.Versions{}}
			for _, c := range found {
				v.Clusters = append(v.Clusters, report.VersionsOf(s.facts(ctx, c, false)))
			}
			return a.Emit(v, []string{v.Pawl}, func() string { return "pawl " + v.Pawl + "\n" + report.VersionTable(v.Clusters).Text(a.Style(a.Out)) })
		})
	w.namespaceFlag(cmd)
	w.allFlag(cmd)
	w.objectsFlag(cmd)
	return cmd
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
