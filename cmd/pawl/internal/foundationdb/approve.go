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
			o, err := approve(ctx, s.objects, refOf(c, report.ClusterKind), args[1])
			if err != nil {
				return err
			}
			return a.Emit(o, []string{o.Ref.String()}, func() string { return fmt.Sprintf("%s plan %s passes once\n", o.Ref, args[1]) })
		})
	cmd.Long = "Sets the annotation " + foundationdb.ApproveAnnotation + ". The operator removes it when the plan passes; another plan has\nanother hash."
	w.namespaceFlag(cmd)
	return cmd
}

// approve lets a plan pass once, if it is the one that the cluster has. It fails with PlanDiffers.
func approve(ctx context.Context, objects control.Objects, ref control.Ref, hash string) (control.Object, error) {
	return control.Modify(ctx, objects, ref, func(o *control.Object) error {
		c, err := report.ClusterOf(*o)
		if err != nil {
			return err
		}
		switch p := report.PlanOf(c); {
		case p.Hash == "":
			return PlanDiffers.Errorf("%s holds no plan back", nameOf(c))
		case p.Hash != hash:
			return PlanDiffers.Errorf("the plan of %s has the hash %s, not %s", nameOf(c), p.Hash, hash)
		}
		setAnnotation(o, foundationdb.ApproveAnnotation, hash)
		return nil
	})
}

// setAnnotation sets an annotation; an empty value removes it.
func setAnnotation(o *control.Object, key, value string) {
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[key] = value
	if value == "" {
		delete(o.Annotations, key)
	}
}

func (a verbs) annotate(ctx context.Context, s *source, ref control.Ref, key, value, done string) error {
	o, err := control.Modify(ctx, s.objects, ref, func(o *control.Object) error {
		setAnnotation(o, key, value)
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
