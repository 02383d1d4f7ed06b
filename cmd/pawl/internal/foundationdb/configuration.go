package foundationdb

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
)

func (a verbs) configurationCommand() *cobra.Command {
	var w where
	var how cli.Confirmation
	var dc string
	var update bool
	cmd := a.verb("configuration [CLUSTER]", "Show what configure would be called with, or fail over to another data center",
		"  pawl fdb configuration orders\n  pawl fdb configuration orders --fail-over dc2\n  pawl fdb configuration orders --fail-over dc2 --update", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			if dc == "" {
				if update {
					return cli.Usage.Errorf("--update goes with --fail-over: other changes of the configuration are written with pawl edit fdb")
				}
				return a.showConfiguration(ctx, w, optional(args))
			}
			return a.failOver(ctx, w, optional(args), dc, update, how)
		})
	cmd.Long = `Prints the configuration of the database and of the spec, in the text of configure, the
stages between them, and what blocks the next stage.

With --fail-over the main data center DC gets the highest priority. --update writes that to
the spec: the operator configures the database stage by stage, with its gates.`
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	cmd.Flags().StringVar(&dc, "fail-over", "", "show the configuration with this `data center` as the primary one")
	cmd.Flags().BoolVar(&update, "update", false, "write it to the spec")
	how.AddFlags(cmd)
	return cmd
}

func (a verbs) failOver(ctx context.Context, w where, name, dc string, update bool, how cli.Confirmation) error {
	s, err := a.open(ctx, w)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}
	regions, err := report.FailOver(c, dc)
	if err != nil {
		return err
	}
	f := s.facts(ctx, c, true)
	f.Cluster = c.DeepCopy()
	f.Cluster.Spec.DatabaseConfiguration.Regions = regions
	v := report.Configure(f)
	if !update {
		return a.Emit(v, []string{v.Cluster}, v.Text)
	}
	does := []string{fmt.Sprintf("make %s the primary data center", dc)}
	for i, stage := range v.Stages {
		does = append(does, fmt.Sprintf("stage %d: configure %s", i+1, stage))
	}
	if v.Reason != "" {
		does = append(does, "the next stage waits: "+v.Reason+": "+v.Message)
	}
	return a.carryOut(ctx, s, []change{{
		object: shown(c, report.ClusterKind), does: does, ref: refOf(c, report.ClusterKind),
		edit: func(_ *control.Object, spec map[string]any) error {
			priorities := map[string]int{}
			for _, r := range regions {
				for _, d := range r.Datacenters {
					if d.Satellite == 0 {
						priorities[d.ID] = d.Priority
					}
				}
			}
			return prioritize(spec, priorities)
		},
	}}, how)
}

// prioritize writes priorities of main data centers, and nothing else.
func prioritize(spec map[string]any, priorities map[string]int) error {
	all, _ := inside(spec, "databaseConfiguration")["regions"].([]any)
	for _, one := range all {
		region, _ := one.(map[string]any)
		dcs, _ := region["datacenters"].([]any)
		for _, entry := range dcs {
			d, _ := entry.(map[string]any)
			id, _ := d["id"].(string)
			satellite, _ := d["satellite"].(float64)
			if priority, ok := priorities[id]; ok && satellite == 0 {
				d["priority"] = priority
			}
		}
	}
	return nil
}
