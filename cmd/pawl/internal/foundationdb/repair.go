package foundationdb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// targetsOf name groups for exclude and include: by locality where the version knows localities, else by address.
func targetsOf(c *v1beta2.FoundationDBCluster, ids []v1beta2.ProcessGroupID) []string {
	effective := c.DeepCopy()
	effective.Spec = foundationdb.Effective(c.Spec)
	var targets []string
	for _, g := range c.Status.ProcessGroups {
		switch {
		case !slices.Contains(ids, g.ProcessGroupID):
		case foundationdb.UsesLocalities(effective):
			targets = append(targets, fdb.LocalityPrefix+fdb.InstanceLocality+":"+string(g.ProcessGroupID))
		default:
			targets = append(targets, g.Addresses...)
		}
	}
	return targets
}

// call runs a call of fdbcli as part of a change, and says what came of it.
func (s *source) call(f report.Facts, call fdb.Call, done string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		result, _, _, err := s.run(ctx, f.Cluster, f.Pods, call)
		if err != nil {
			return "", err
		}
		if result.Outcome != fdb.Ok && call.Command != fdb.CommandKill { // what a kill has done the next status tells
			return "", CommandRefused.Errorf("%s: %s", call.Text(), result)
		}
		return done, nil
	}
}

// groupRepair makes a verb that runs one call for groups of a cluster.
func (a verbs) groupRepair(cmd *cobra.Command, do func(ctx context.Context, s *source, f report.Facts, ids []v1beta2.ProcessGroupID) (change, error)) (*cobra.Command, *choice) {
	var w where
	var how cli.Confirmation
	var cluster string
	c := &choice{}
	cmd.Args = cobra.ArbitraryArgs
	cmd.ValidArgsFunction = a.completeGroups
	cmd.RunE = a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		one, err := s.clusterOf(ctx, cluster, args)
		if err != nil {
			return err
		}
		f := s.facts(ctx, one, true)
		var ids []v1beta2.ProcessGroupID
		if len(args) > 0 || !c.empty() {
			if ids, err = c.of(f, args); err != nil {
				return err
			}
		}
		what, err := do(ctx, s, f, ids)
		if err != nil {
			return err
		}
		return a.carryOut(ctx, s, []change{what}, how)
	})
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	a.clusterFlag(cmd, &cluster)
	c.flags(a, cmd)
	how.AddFlags(cmd)
	return cmd, c
}

var errNoGroups = cli.Usage.Errorf("name groups, or choose them with flags")

func (a verbs) excludeCommand() *cobra.Command {
	cmd, _ := a.groupRepair(&cobra.Command{
		Use: "exclude GROUP…", Short: "Exclude groups in the database at once, past the operator", Example: "  pawl fdb exclude storage-4 -c orders",
		Long: `Runs exclude no_wait in a pod of the cluster. It is a repair: pawl fdb remove process-groups
lets the operator exclude groups, with its gates, and replace them.`,
	}, func(_ context.Context, s *source, f report.Facts, ids []v1beta2.ProcessGroupID) (change, error) {
		targets := targetsOf(f.Cluster, ids)
		if len(targets) == 0 {
			return change{}, errNoGroups
		}
		return change{
			object: shown(f.Cluster, report.ClusterKind),
			does:   []string{"exclude " + strings.Join(targets, " "), "data and roles move away; the groups stay, and the operator shows them as ProcessIsMarkedAsExcluded"},
			do:     s.call(f, fdb.Exclude(targets, true), "excluded: pawl fdb exclusion-status "+f.Cluster.Name+" shows what is left"),
		}, nil
	})
	return cmd
}

func (a verbs) includeCommand() *cobra.Command {
	var leftover bool
	cmd, _ := a.groupRepair(&cobra.Command{
		Use: "include GROUP… | --leftover", Short: "Include excluded groups again, or exclusions of what is no group",
		Example: "  pawl fdb include storage-4 -c orders\n  pawl fdb include -c orders --leftover",
	}, func(_ context.Context, s *source, f report.Facts, ids []v1beta2.ProcessGroupID) (change, error) {
		targets := targetsOf(f.Cluster, ids)
		for _, g := range f.Cluster.Status.ProcessGroups {
			if slices.Contains(ids, g.ProcessGroupID) && g.Marked() {
				return change{}, cli.Usage.Errorf("%s is marked for removal: the operator would exclude it again", g.ProcessGroupID)
			}
		}
		if leftover {
			targets = append(targets, report.Leftovers(f)...)
		}
		if len(targets) == 0 {
			if leftover {
				return change{}, cli.Usage.Errorf("the database has no exclusion that is known to be left over")
			}
			return change{}, errNoGroups
		}
		return change{
			object: shown(f.Cluster, report.ClusterKind), does: []string{"include " + strings.Join(targets, " ")},
			do: s.call(f, fdb.Include(targets), "included"),
		}, nil
	})
	cmd.Flags().BoolVar(&leftover, "leftover", false, "exclusions that name no group of the cluster")
	return cmd
}

func (a verbs) restartCommand() *cobra.Command {
	var force bool
	cmd, c := a.groupRepair(&cobra.Command{
		Use: "restart GROUP… | --all", Short: "Restart the servers of groups, through the gate Bounce",
		Example: "  pawl fdb restart storage-4 -c orders\n  pawl fdb restart -c orders --class log\n  pawl fdb restart -c orders --all --force",
		Long:    "Kills the servers, which their monitor starts again. Pods stay. One recovery follows when servers of the\ntransaction system are among them.",
	}, func(_ context.Context, s *source, f report.Facts, ids []v1beta2.ProcessGroupID) (change, error) {
		if len(ids) == 0 {
			return change{}, errNoGroups
		}
		if f.Status == nil {
			return change{}, Unreachable.Errorf("which addresses the servers have is not known: %s", f.Silence)
		}
		addresses, silent := addressesOf(f, ids)
		if len(addresses) == 0 {
			return change{}, Unreachable.Errorf("no server of %s reports", joined(ids))
		}
		does := []string{fmt.Sprintf("restart %s: %s", cli.CountText(len(addresses), "server"), strings.Join(addresses, " "))}
		if len(silent) > 0 {
			does = append(does, "not those of "+joined(silent)+", which do not report")
		}
		if gate := f.Gate(fdb.GateBounce); !gate.Open {
			if !force {
				return change{}, GateClosed.Errorf("gate Bounce is closed: %s: %s", gate.Reason, gate.Message)
			}
			does = append(does, fmt.Sprintf("past the gate Bounce, which is closed: %s: %s", gate.Reason, gate.Message))
		}
		return change{
			object: shown(f.Cluster, report.ClusterKind), does: does, lost: []string{"the availability of the database for some seconds"},
			do: s.call(f, fdb.Kill(addresses, false), "was asked to restart them: the next status tells"),
		}, nil
	})
	cmd.Flags().BoolVar(&c.all, "all", false, "all groups")
	cmd.Flags().BoolVar(&force, "force", false, "also while the gate is closed")
	return cmd
}

// addressesOf are the addresses of the servers of groups, and the groups of which none reports.
func addressesOf(f report.Facts, ids []v1beta2.ProcessGroupID) (addresses []string, silent []v1beta2.ProcessGroupID) {
	for _, id := range ids {
		reports := false
		for _, p := range f.Status.Cluster.Processes {
			if p.Locality[fdb.InstanceLocality] == string(id) && p.Address != (fdb.Address{}) {
				addresses, reports = append(addresses, p.Address.String()), true
			}
		}
		if !reports {
			silent = append(silent, id)
		}
	}
	return addresses, silent
}

func (a verbs) maintenanceCommand() *cobra.Command {
	group := &cobra.Command{Use: "maintenance", Short: "Keep data from being moved away from a zone for some time", Example: "  pawl fdb maintenance status orders\n  pawl fdb maintenance on node-7 -c orders --for 20m"}
	group.AddCommand(a.maintenanceStatusCommand(), a.maintenanceOnCommand(), a.maintenanceOffCommand())
	return group
}

// Maintenance is what is known of the maintenance of a cluster.
type Maintenance struct {
	Cluster string `json:"cluster"`
	// Zone is the one that the database says; empty: none, or not read.
	Zone    string  `json:"zone,omitempty"`
	Seconds float64 `json:"secondsRemaining,omitempty"`
	// OperatorZone is the one that the operator has begun with, and Groups are those it waits for.
	OperatorZone string   `json:"operatorZone,omitempty"`
	Groups       []string `json:"groups,omitempty"`
	Silence      string   `json:"silence,omitempty"`
}

func maintenanceOf(f report.Facts) Maintenance {
	info := f.Cluster.Status.MaintenanceModeInfo
	m := Maintenance{Cluster: nameOf(f.Cluster), OperatorZone: info.ZoneID, Groups: info.ProcessGroups, Silence: f.Silence}
	if f.Status != nil {
		m.Zone = f.Status.Cluster.MaintenanceZone
		if left := f.Status.Cluster.MaintenanceSeconds; left != nil && m.Zone != "" {
			m.Seconds = *left
		}
	}
	return m
}

// Text is the maintenance for people.
func (m Maintenance) Text() string {
	text := "cluster " + m.Cluster + "\n"
	switch {
	case m.Zone != "":
		text += fmt.Sprintf("  zone %s is under maintenance for another %s\n", m.Zone, time.Duration(m.Seconds)*time.Second)
	case m.Silence != "":
		text += "  database: " + m.Silence + "\n"
	default:
		text += "  no zone is under maintenance\n"
	}
	if m.OperatorZone != "" {
		text += fmt.Sprintf("  the operator has begun it for zone %s, and waits for %s\n", m.OperatorZone, strings.Join(m.Groups, ", "))
	}
	return text
}

func (a verbs) maintenanceStatusCommand() *cobra.Command {
	var w where
	cmd := a.verb("status [CLUSTER]", "Say which zone is under maintenance", "  pawl fdb maintenance status orders", cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		c, err := s.cluster(ctx, optional(args))
		if err != nil {
			return err
		}
		m := maintenanceOf(s.facts(ctx, c, true))
		return a.Emit(m, []string{m.Cluster}, m.Text)
	})
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	return cmd
}

// maintain makes a verb that begins or ends a maintenance.
func (a verbs) maintain(use, short, example string, args cobra.PositionalArgs, do func(s *source, f report.Facts, args []string) (change, error)) *cobra.Command {
	var w where
	var how cli.Confirmation
	var cluster string
	cmd := a.verb(use, short, example, args, func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		c, err := s.cluster(ctx, cluster)
		if err != nil {
			return err
		}
		what, err := do(s, s.facts(ctx, c, true), args)
		if err != nil {
			return err
		}
		return a.carryOut(ctx, s, []change{what}, how)
	})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	a.clusterFlag(cmd, &cluster)
	how.AddFlags(cmd)
	return cmd
}

func (a verbs) maintenanceOnCommand() *cobra.Command {
	last := 10 * time.Minute
	cmd := a.maintain("on ZONE", "Begin the maintenance of a zone", "  pawl fdb maintenance on node-7 -c orders --for 20m", cobra.ExactArgs(1), func(s *source, f report.Facts, args []string) (change, error) {
		zone := args[0]
		var groups []v1beta2.ProcessGroupID
		for _, g := range f.Cluster.Status.ProcessGroups {
			if g.FaultDomain == zone {
				groups = append(groups, g.ProcessGroupID)
			}
		}
		options := foundationdb.Effective(f.Cluster.Spec).AutomationOptions.MaintenanceModeOptions
		switch {
		case len(groups) == 0:
			return change{}, cli.Usage.Errorf("no group of %s is in zone %s", nameOf(f.Cluster), zone)
		case last < time.Second:
			return change{}, cli.Usage.Errorf("--for %s: it is at least 1s", last)
		case options.ResetMaintenanceMode != nil && *options.ResetMaintenanceMode:
			return change{}, cli.Usage.Errorf("the operator ends each maintenance of %s that is none of its own: set spec.automationOptions.maintenanceModeOptions.resetMaintenanceMode to false first", nameOf(f.Cluster))
		}
		call := fdb.MaintenanceOn(zone, last)
		return change{
			object: shown(f.Cluster, report.ClusterKind),
			does:   []string{fmt.Sprintf("for %s the database moves no data away from zone %s: %s", last, zone, joined(groups))},
			lost:   []string{"nothing, unless another zone fails in this time: then data has fewer replicas than it should have"},
			do:     s.call(f, call, "zone "+zone+" is under maintenance"),
		}, nil
	})
	cmd.Flags().DurationVar(&last, "for", last, "how long at most")
	return cmd
}

func (a verbs) maintenanceOffCommand() *cobra.Command {
	return a.maintain("off", "End the maintenance", "  pawl fdb maintenance off -c orders", cobra.NoArgs, func(s *source, f report.Facts, _ []string) (change, error) {
		does := []string{"data of servers that are away is copied to others from now on"}
		if m := maintenanceOf(f); m.OperatorZone != "" {
			does = append(does, "the operator has begun the maintenance of zone "+m.OperatorZone)
		}
		return change{object: shown(f.Cluster, report.ClusterKind), does: does, do: s.call(f, fdb.MaintenanceOff(), "no zone is under maintenance")}, nil
	})
}
