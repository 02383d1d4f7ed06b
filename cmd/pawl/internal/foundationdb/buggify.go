package foundationdb

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

func (a verbs) buggifyCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "buggify", Short: "Do harm on purpose, for tests", Example: "  pawl fdb buggify no-schedule storage-4 -c orders\n  pawl fdb buggify off orders",
		Long: "Edits spec.buggify. --off takes back what was done to these groups; off takes back all of it.",
	}
	group.AddCommand(
		a.crashLoopCommand(),
		a.buggifyGroupsCommand("no-schedule", "noSchedule", "Let the pods of groups fit no node"),
		a.buggifyGroupsCommand("block-removal", "blockRemoval", "Keep groups that are marked from being removed"),
		a.emptyMonitorConfCommand(),
		a.buggifyOffCommand(),
	)
	return group
}

// buggifyGroups makes a verb that puts groups into a list of spec.buggify.
func (a verbs) buggifyVerb(use, short, example string, harm func(spec map[string]any, ids []v1beta2.ProcessGroupID, off bool), flags func(cmd *cobra.Command)) *cobra.Command {
	var w where
	var how cli.Confirmation
	var c choice
	var cluster string
	var off bool
	cmd := a.verb(use+" [GROUP…]", short, example, cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		one, err := s.clusterOf(ctx, cluster, args)
		if err != nil {
			return err
		}
		ids, err := c.of(s.facts(ctx, one, false), args)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return control.NotFound.Errorf("%s has no such group", nameOf(one))
		}
		text := fmt.Sprintf("buggify %s: %s", use, joined(ids))
		if off {
			text = fmt.Sprintf("no longer buggify %s: %s", use, joined(ids))
		}
		return a.carryOut(ctx, s, []change{{
			object: shown(one, report.ClusterKind), does: []string{text}, ref: refOf(one, report.ClusterKind),
			edit: func(_ *control.Object, spec map[string]any) error {
				harm(inside(spec, "buggify"), ids, off)
				tidyBuggify(spec)
				return nil
			},
		}}, how)
	})
	cmd.ValidArgsFunction = a.completeGroups
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	a.clusterFlag(cmd, &cluster)
	c.flags(a, cmd)
	cmd.Flags().BoolVar(&off, "off", false, "take it back")
	if flags != nil {
		flags(cmd)
	}
	how.AddFlags(cmd)
	return cmd
}

// tidyBuggify removes what does nothing.
func tidyBuggify(spec map[string]any) {
	if b, _ := spec["buggify"].(map[string]any); len(b) == 0 {
		delete(spec, "buggify")
	}
}

func (a verbs) buggifyGroupsCommand(use, field, short string) *cobra.Command {
	return a.buggifyVerb(use, short, "  pawl fdb buggify "+use+" storage-4 -c orders", func(b map[string]any, ids []v1beta2.ProcessGroupID, off bool) {
		if off {
			takeFrom(b, field, ids)
			return
		}
		addTo(b, field, ids)
	}, nil)
}

func (a verbs) crashLoopCommand() *cobra.Command {
	container := foundationdb.MainContainer
	return a.buggifyVerb("crash-loop", "Let a container of groups crash", "  pawl fdb buggify crash-loop storage-4 -c orders --container foundationdb-kubernetes-sidecar",
		func(b map[string]any, ids []v1beta2.ProcessGroupID, off bool) {
			list, _ := b["crashLoopContainers"].([]any)
			var entry map[string]any
			var others []any
			for _, one := range list {
				if m, ok := one.(map[string]any); ok && m["containerName"] == container {
					entry = m
					continue
				}
				others = append(others, one)
			}
			if entry == nil {
				entry = map[string]any{"containerName": container}
			}
			if off {
				takeFrom(entry, "targets", ids)
				if container == foundationdb.MainContainer {
					takeFrom(b, "crashLoop", ids)
				}
			} else {
				addTo(entry, "targets", ids)
			}
			if entry["targets"] != nil {
				others = append(others, entry)
			}
			if len(others) == 0 {
				delete(b, "crashLoopContainers")
				return
			}
			b["crashLoopContainers"] = others
		},
		func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&container, "container", foundationdb.MainContainer, "`name` of the container")
			cli.SetCompletions(cmd, map[string]cli.Completion{"container": cli.FixedCompletion(foundationdb.MainContainer, foundationdb.SidecarContainer)})
		})
}

// clusterEdit makes a verb that edits the spec of one cluster.
func (a verbs) clusterEdit(use, short, example string, does func() (lines, lost []string), edit func(spec map[string]any)) *cobra.Command {
	var w where
	var how cli.Confirmation
	cmd := a.verb(use, short, example, cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		c, err := s.cluster(ctx, optional(args))
		if err != nil {
			return err
		}
		lines, lost := does()
		return a.carryOut(ctx, s, []change{{
			object: shown(c, report.ClusterKind), does: lines, lost: lost, ref: refOf(c, report.ClusterKind),
			edit: func(_ *control.Object, spec map[string]any) error { edit(spec); return nil },
		}}, how)
	})
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	how.AddFlags(cmd)
	return cmd
}

func (a verbs) emptyMonitorConfCommand() *cobra.Command {
	off := false
	cmd := a.clusterEdit("empty-monitor-conf [CLUSTER]", "Let no server of a cluster run", "  pawl fdb buggify empty-monitor-conf orders\n  pawl fdb buggify empty-monitor-conf orders --off",
		func() ([]string, []string) {
			if off {
				return []string{"let the servers run again"}, nil
			}
			return []string{"stop all servers of this object"}, []string{"the availability of the database, until --off"}
		},
		func(spec map[string]any) {
			if off {
				delete(inside(spec, "buggify"), "emptyMonitorConf")
				tidyBuggify(spec)
				return
			}
			inside(spec, "buggify")["emptyMonitorConf"] = true
		})
	cmd.Flags().BoolVar(&off, "off", false, "take it back")
	return cmd
}

func (a verbs) buggifyOffCommand() *cobra.Command {
	return a.clusterEdit("off [CLUSTER]", "Take back all of spec.buggify", "  pawl fdb buggify off orders",
		func() ([]string, []string) { return []string{"remove spec.buggify"}, nil },
		func(spec map[string]any) { delete(spec, "buggify") })
}
