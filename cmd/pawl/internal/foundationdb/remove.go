package foundationdb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// mostRemoved is how many ids the lists of a spec hold.
const mostRemoved = 500

// removal marks groups of a cluster for removal. lost is nil, or what is lost without exclusion.
func removal(c *v1beta2.FoundationDBCluster, ids []v1beta2.ProcessGroupID, lost []string) change {
	field, how := "processGroupsToRemove", "their data moves away first"
	if lost != nil {
		field, how = "processGroupsToRemoveWithoutExclusion", "without moving their data"
	}
	return change{
		object: shown(c, report.ClusterKind),
		does:   []string{fmt.Sprintf("replace %s, %s: %s", cli.CountText(len(ids), "group"), how, joined(ids))},
		lost:   lost,
		ref:    refOf(c, report.ClusterKind),
		edit: func(_ *control.Object, spec map[string]any) error {
			addTo(spec, field, ids)
			if list, _ := spec[field].([]any); len(list) > mostRemoved {
				return cli.Usage.Errorf("spec.%s would have %d ids, and may have %d: remove fewer at once", field, len(list), mostRemoved)
			}
			return nil
		},
	}
}

func joined(ids []v1beta2.ProcessGroupID) string {
	return strings.Join(cli.NamesOf(ids, func(id v1beta2.ProcessGroupID) string { return string(id) }), ", ")
}

// lostWithout says what goes with groups whose data is not moved first.
func lostWithout(f report.Facts, ids []v1beta2.ProcessGroupID) []string {
	spec := foundationdb.Effective(f.Cluster.Spec)
	redundancy := fdb.Redundancy(spec.DatabaseConfiguration.RedundancyMode)
	zones := map[string][]v1beta2.ProcessGroupID{}
	stateful := 0
	for _, g := range f.Cluster.Status.ProcessGroups {
		if slices.Contains(ids, g.ProcessGroupID) && fdb.Class(g.ProcessClass).Stateful() && !g.Excluded() {
			stateful++
			zones[g.FaultDomain] = append(zones[g.FaultDomain], g.ProcessGroupID)
		}
	}
	if stateful == 0 {
		return []string{"no data: none of these groups keeps any"}
	}
	var lost []string
	for _, zone := range sortedKeys(zones) {
		lost = append(lost, fmt.Sprintf("all that %s in zone %s keep", joined(zones[zone]), zone))
	}
	if tolerance := redundancy.FaultTolerance(); len(zones) > tolerance {
		lost = append(lost, fmt.Sprintf("DATA: these are %s, and redundancy %s survives the loss of %d", cli.CountText(len(zones), "zone"), redundancy, tolerance))
	} else {
		lost = append(lost, fmt.Sprintf("replicas, not data, if all other zones are well: redundancy %s survives the loss of %d of them", redundancy, tolerance))
	}
	for _, e := range report.Exclusions(report.Facts{Cluster: marked(f.Cluster, ids), Status: f.Status, Now: f.Now}).Exclusions {
		if slices.Contains(ids, v1beta2.ProcessGroupID(e.Group)) && e.Bytes > 0 {
			lost = append(lost, fmt.Sprintf("%s on %s", report.Bytes(e.Bytes), e.Group))
		}
	}
	return lost
}

// unmarked are those groups that are not marked for removal already.
func unmarked(c *v1beta2.FoundationDBCluster, ids []v1beta2.ProcessGroupID) []v1beta2.ProcessGroupID {
	return slices.DeleteFunc(ids, func(id v1beta2.ProcessGroupID) bool {
		return slices.ContainsFunc(c.Status.ProcessGroups, func(g v1beta2.ProcessGroupStatus) bool { return g.ProcessGroupID == id && g.Marked() })
	})
}

// marked is a cluster in which groups are marked for removal.
func marked(c *v1beta2.FoundationDBCluster, ids []v1beta2.ProcessGroupID) *v1beta2.FoundationDBCluster {
	c = c.DeepCopy()
	for i := range c.Status.ProcessGroups {
		if g := &c.Status.ProcessGroups[i]; slices.Contains(ids, g.ProcessGroupID) && !g.Marked() {
			at := c.CreationTimestamp
			g.RemovalTimestamp = &at
		}
	}
	return c
}

func (a verbs) removeCommand() *cobra.Command {
	group := &cobra.Command{Use: "remove", Short: "Take something out of a cluster", Example: "  pawl fdb remove process-groups storage-4"}
	group.AddCommand(a.removeGroupsCommand())
	return group
}

func (a verbs) removeGroupsCommand() *cobra.Command {
	var w where
	var how cli.Confirmation
	var c choice
	var cluster string
	var without bool
	cmd := a.verb("process-groups [GROUP…]", "Replace process groups: their data moves away, and others are made in their place",
		"  pawl fdb remove process-groups storage-4\n  pawl fdb remove process-groups -c orders --class log --condition PodPending\n  pawl fdb remove process-groups -c orders --all-failed -y\n  pawl fdb remove process-groups storage-4 --without-exclusion --dry-run",
		cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
			return a.removeGroups(ctx, w, cluster, args, c, without, how)
		})
	cmd.Long = `Adds the groups to spec.processGroupsToRemove: the operator makes others, moves the data
away, proves that nothing is left, and then deletes pods and volumes, with its gates.

With --without-exclusion nothing is moved first. What may be lost is said before.`
	cmd.ValidArgsFunction = a.completeGroups
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	a.clusterFlag(cmd, &cluster)
	c.flags(a, cmd)
	cmd.Flags().BoolVar(&c.failed, "all-failed", false, "groups with a condition for which they would be replaced if it lasted")
	cmd.Flags().BoolVar(&without, "without-exclusion", false, "do not move the data away first")
	how.AddFlags(cmd)
	return cmd
}

func (a verbs) removeGroups(ctx context.Context, w where, cluster string, args []string, chosen choice, without bool, how cli.Confirmation) error {
	s, err := a.open(ctx, w)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := s.clusterOf(ctx, cluster, args)
	if err != nil {
		return err
	}
	f := s.facts(ctx, c, without)
	ids, err := chosen.of(f, args)
	if err != nil {
		return err
	}
	if !without {
		ids = unmarked(c, ids)
	}
	if len(ids) == 0 {
		a.Say("%s has no such group that is not marked for removal already", nameOf(c))
		return a.tell(nil)
	}
	var lost []string
	if without {
		lost = lostWithout(f, ids)
	}
	return a.carryOut(ctx, s, []change{removal(c, ids, lost)}, how)
}

func (a verbs) cordonCommand() *cobra.Command {
	var w where
	var how cli.Confirmation
	var selector string
	cmd := a.verb("cordon NODE… | -l SELECTOR", "Replace all process groups on nodes, over clusters", "  pawl fdb cordon node-7 node-8\n  pawl fdb cordon -l rack=r12 -A --dry-run",
		cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
			if (len(args) > 0) == (selector != "") {
				return cli.Usage.Errorf("name nodes, or choose them with -l")
			}
			s, err := a.open(ctx, w)
			if err != nil {
				return err
			}
			defer s.Close()
			on, found, nodes, err := s.onNodes(ctx, args, selector)
			if err != nil {
				return err
			}
			var changes []change
			for _, c := range found {
				if ids := unmarked(c, on[nameOf(c)]); len(ids) > 0 {
					changes = append(changes, removal(c, ids, nil))
				}
			}
			if len(changes) == 0 {
				a.Say("no process group of %s that is not marked for removal already is on %s", s.place(), strings.Join(nodes, ", "))
				return a.tell(nil)
			}
			return a.carryOut(ctx, s, changes, how)
		})
	cmd.Long = "Marks the groups for removal whose pods stand on these nodes. It does not cordon the nodes themselves:\nkubectl cordon first, so that no new pod comes there."
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	w.namespaceFlag(cmd)
	w.allFlag(cmd)
	w.objectsFlag(cmd)
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "nodes with these `labels`")
	how.AddFlags(cmd)
	return cmd
}
