package foundationdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// choice chooses process groups of a cluster: all that each of the given flags admits.
type choice struct {
	class, condition, selector string
	pods                       []string
	all, failed                bool
}

func (c *choice) flags(a verbs, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.class, "class", "", "groups of this `class`")
	f.StringVar(&c.condition, "condition", "", "groups with this `condition`")
	f.StringSliceVar(&c.pods, "pod", nil, "groups of these `pods`")
	f.StringVarP(&c.selector, "selector", "l", "", "groups whose pods have these `labels`")
	cli.SetCompletions(cmd, map[string]cli.Completion{"class": cli.FixedCompletion(classes...), "condition": cli.FixedCompletion(conditions...)})
}

// empty reports a choice that names nothing.
func (c choice) empty() bool {
	return c.class == "" && c.condition == "" && c.selector == "" && len(c.pods) == 0 && !c.all && !c.failed
}

var classes = []fdb.Class{
	fdb.ClassStorage, fdb.ClassLog, fdb.ClassTransaction, fdb.ClassStateless, fdb.ClassCoordinator, fdb.ClassClusterController, fdb.ClassProxy,
	fdb.ClassCommitProxy, fdb.ClassGRVProxy, fdb.ClassResolution, fdb.ClassMaster, fdb.ClassRouter, fdb.ClassDataDistributor, fdb.ClassRatekeeper,
	fdb.ClassStorageCache, fdb.ClassBackup, fdb.ClassFastRestore, fdb.ClassTest,
}

var conditions = []v1beta2.ProcessGroupConditionType{
	v1beta2.IncorrectPodSpec, v1beta2.IncorrectPodMetadata, v1beta2.IncorrectConfigMap, v1beta2.IncorrectCommandLine, v1beta2.IncorrectSidecarImage,
	v1beta2.PodFailing, v1beta2.PodPending, v1beta2.ResourcesTerminating, v1beta2.MissingPod, v1beta2.MissingPVC, v1beta2.MissingService, v1beta2.MissingProcesses,
	v1beta2.SidecarUnreachable, v1beta2.NodeTaintDetected, v1beta2.NodeTaintReplacing, v1beta2.ProcessIsMarkedAsExcluded, v1beta2.ProcessHasIOError, v1beta2.ProcessHasHighRunLoopBusy,
}

// of returns the chosen groups of a cluster, in the order of its status. ids that the cluster does not have are refused.
func (c choice) of(f report.Facts, ids []string) ([]v1beta2.ProcessGroupID, error) {
	if len(ids) == 0 && c.empty() {
		return nil, cli.Usage.Errorf("name groups, or choose them with flags")
	}
	if c.condition != "" && !slices.Contains(conditions, v1beta2.ProcessGroupConditionType(c.condition)) {
		return nil, cli.Usage.Errorf("--condition %s: there is no such condition%s", c.condition, cli.Suggest(c.condition, cli.NamesOf(conditions, func(t v1beta2.ProcessGroupConditionType) string { return string(t) })))
	}
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, cli.Usage.Errorf("--selector %s: %w", c.selector, err)
	}
	var known []string
	var chosen []v1beta2.ProcessGroupID
	for _, g := range f.Cluster.Status.ProcessGroups {
		known = append(known, string(g.ProcessGroupID))
		pod := f.Pods[g.ProcessGroupID]
		switch {
		case len(ids) > 0 && !slices.Contains(ids, string(g.ProcessGroupID)),
			c.class != "" && string(g.ProcessClass) != c.class,
			c.condition != "" && !g.Has(v1beta2.ProcessGroupConditionType(c.condition)),
			c.failed && !foundationdb.Fails(&g),
			len(c.pods) > 0 && (pod == nil || !slices.Contains(c.pods, pod.Name)),
			c.selector != "" && (pod == nil || !selector.Matches(labels.Set(pod.Labels))):
			continue
		}
		chosen = append(chosen, g.ProcessGroupID)
	}
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return nil, control.NotFound.Errorf("%s has no group %s%s", nameOf(f.Cluster), id, cli.Suggest(id, known))
		}
	}
	return chosen, nil
}

func (a verbs) clusterFlag(cmd *cobra.Command, cluster *string) {
	cmd.Flags().StringVarP(cluster, "cluster", "c", "", "`name` of the cluster (default: the one that has the groups)")
	cli.SetCompletions(cmd, map[string]cli.Completion{"cluster": a.completeClusters})
}

// clusterOf is the cluster with a name, or the only one that has all of these groups.
func (s *source) clusterOf(ctx context.Context, name string, groups []string) (*v1beta2.FoundationDBCluster, error) {
	if name != "" || len(groups) == 0 {
		return s.cluster(ctx, name)
	}
	found, err := s.clusters(ctx, "")
	if err != nil {
		return nil, err
	}
	with := slices.DeleteFunc(slices.Clone(found), func(c *v1beta2.FoundationDBCluster) bool {
		return slices.ContainsFunc(groups, func(id string) bool {
			return !slices.ContainsFunc(c.Status.ProcessGroups, func(g v1beta2.ProcessGroupStatus) bool { return string(g.ProcessGroupID) == id })
		})
	})
	switch {
	case len(with) == 1:
		return with[0], nil
	case len(with) == 0 && len(found) == 1:
		return found[0], nil // which says what it does not have
	case len(with) == 0:
		return nil, control.NotFound.Errorf("no FoundationDBCluster in %s has the group %s", s.place(), strings.Join(groups, ", "))
	}
	return nil, cli.Usage.Errorf("several clusters in %s have the group %s: name one with -c", s.place(), strings.Join(groups, ", "))
}

// onNodes are the groups of clusters whose pods stand on nodes.
func (s *source) onNodes(ctx context.Context, nodes []string, selector string) (map[string][]v1beta2.ProcessGroupID, []*v1beta2.FoundationDBCluster, []string, error) {
	if selector != "" {
		parsed, err := labels.Parse(selector)
		if err != nil {
			return nil, nil, nil, cli.Usage.Errorf("--selector %s: %w", selector, err)
		}
		var list corev1.NodeList
		if err := s.reader.List(ctx, &list, client.MatchingLabelsSelector{Selector: parsed}); err != nil {
			return nil, nil, nil, err
		}
		for _, n := range list.Items {
			nodes = append(nodes, n.Name)
		}
		if len(list.Items) == 0 {
			return nil, nil, nil, control.NotFound.Errorf("no node has the labels %s", selector)
		}
	}
	found, err := s.clusters(ctx, "")
	if err != nil {
		return nil, nil, nil, err
	}
	on := map[string][]v1beta2.ProcessGroupID{}
	for _, c := range found {
		for id, pod := range s.facts(ctx, c, false).Pods {
			if slices.Contains(nodes, pod.Spec.NodeName) {
				on[nameOf(c)] = append(on[nameOf(c)], id)
			}
		}
		slices.Sort(on[nameOf(c)])
	}
	return on, found, nodes, nil
}

// completing reads words for a shell from the clusters of the namespace.
func (a verbs) completing(cmd *cobra.Command, words func(ctx context.Context, all []*v1beta2.FoundationDBCluster) []string) ([]string, cobra.ShellCompDirective) {
	return cli.OpenForCompletion(a.App, cmd, func(ctx context.Context) (backend.Backend, error) { return a.Open(ctx, cli.Reads) },
		func(ctx context.Context, b backend.Backend) []string {
			databases, ok := b.(backend.Databases)
			if !ok {
				return nil
			}
			reader, err := databases.DatabaseClient()
			if err != nil {
				return nil
			}
			home := a.Target.NamespaceFlag
			if home == "" {
				home = a.Target.Namespace
			}
			all, err := (&source{app: a.App, reader: reader, home: home}).clusters(ctx, "")
			if err != nil {
				return nil
			}
			return words(ctx, all)
		})
}

// completeClusters suggests the names of clusters.
func (a verbs) completeClusters(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Flags().Lookup("cluster") == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completing(cmd, func(_ context.Context, all []*v1beta2.FoundationDBCluster) []string {
		return cli.NamesOf(all, func(c *v1beta2.FoundationDBCluster) string { return c.Name })
	})
}

// completeGroups suggests the ids of groups, with what they are.
func (a verbs) completeGroups(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	cluster, _ := cmd.Flags().GetString("cluster") // without the flag: all clusters
	return a.completing(cmd, func(_ context.Context, all []*v1beta2.FoundationDBCluster) []string {
		var ids []string
		for _, c := range all {
			if cluster != "" && c.Name != cluster {
				continue
			}
			for _, g := range c.Status.ProcessGroups {
				if !slices.Contains(args, string(g.ProcessGroupID)) {
					ids = append(ids, fmt.Sprintf("%s\t%s of %s", g.ProcessGroupID, g.ProcessClass, c.Name))
				}
			}
		}
		return ids
	})
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
