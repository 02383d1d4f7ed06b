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
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

func (a verbs) approveCommand() *cobra.Command {
	var w where
	cmd := a.verb("approve CLUSTER HASH", "Let exactly this plan pass once, although links are held", "  pawl fdb approve orders 4be1a02c9d77",
		cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
			s, err := a.open(ctx, w)
			if err != nil {
				return err
			}
			defer s.Close()
			c, err := s.cluster(ctx, args[0])
			if err != nil {
				return err
			}
			p := report.PlanOf(c)
			switch {
			case p.Hash == "":
				return PlanDiffers.Errorf("%s holds no plan back", nameOf(c))
			case p.Hash != args[1]:
				return PlanDiffers.Errorf("the plan of %s has the hash %s, not %s", nameOf(c), p.Hash, args[1])
			}
			return a.annotate(ctx, s, refOf(c, report.ClusterKind), foundationdb.ApproveAnnotation, args[1], "plan "+args[1]+" passes once")
		})
	cmd.Long = "Sets the annotation " + foundationdb.ApproveAnnotation + ". The operator removes it when the plan passes; another plan has\nanother hash."
	w.namespaceFlag(cmd)
	return cmd
}

func (a verbs) annotate(ctx context.Context, s *source, ref control.Ref, key, value, done string) error {
	o, err := control.Modify(ctx, s.objects, ref, func(o *control.Object) error {
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		if value == "" {
			delete(o.Annotations, key)
			return nil
		}
		o.Annotations[key] = value
		return nil
	})
	if err != nil {
		return err
	}
	return a.Emit(o, []string{o.Ref.String()}, func() string { return fmt.Sprintf("%s %s\n", o.Ref, done) })
}

func (a verbs) holdCommand() *cobra.Command {
	var w where
	var links []string
	var release bool
	cmd := a.verb("hold [CLUSTER]", "Keep links of the operator from acting; what they would do stays in the plan",
		"  pawl fdb hold orders\n  pawl fdb hold orders --links UpdatePods,BounceProcesses\n  pawl fdb hold orders --release", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			for _, link := range links {
				if link != "*" && !slices.Contains(linkNames, link) {
					return cli.Usage.Errorf("--links %s: there is no such link%s", link, cli.Suggest(link, linkNames))
				}
			}
			s, err := a.open(ctx, w)
			if err != nil {
				return err
			}
			defer s.Close()
			c, err := s.cluster(ctx, optional(args))
			if err != nil {
				return err
			}
			value, done := strings.Join(links, ","), "is held: "+strings.Join(links, ", ")
			if release {
				value, done = "", "is released"
			}
			return a.annotate(ctx, s, refOf(c, report.ClusterKind), foundationdb.HoldAnnotation, value, done)
		})
	cmd.Long = "Sets the annotation " + foundationdb.HoldAnnotation + ". pawl fdb approve lets one plan pass nevertheless."
	w.namespaceFlag(cmd)
	cmd.Flags().StringSliceVar(&links, "links", []string{"*"}, "`names` of links, as the plan has them; * is all")
	cmd.Flags().BoolVar(&release, "release", false, "hold nothing any more")
	cli.SetCompletions(cmd, map[string]cli.Completion{"links": cli.FixedCompletion(linkNames...)})
	return cmd
}

// linkNames are the links that can be held.
var linkNames = []string{
	"UpdateLockConfiguration", "UpdateConfigMap", "CheckClientCompatibility", "DeletePodsForBuggification", "DeleteTerminalPods",
	"ReplaceMisconfiguredProcessGroups", "ReplaceFailedProcessGroups", "AddProcessGroups", "AddServices", "AddPVCs", "AddPods",
	"GenerateInitialClusterFile", "RemoveIncompatibleProcesses", "UpdateSidecarVersions", "UpdatePodConfig", "UpdateLabels",
	"UpdateDatabaseConfiguration", "ChooseRemovals", "ExcludeProcesses", "ChangeCoordinators", "BounceProcesses", "CheckMaintenance",
	"UpdatePods", "RemoveProcessGroups", "RemoveServices",
}
