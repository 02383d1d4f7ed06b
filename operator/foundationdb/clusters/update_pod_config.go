package clusters

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/coordinators"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/podfiles"
	"github.com/pawl-dev/pawl/outcome"
)

// updatePodConfig brings the files in the pods up to the config map, and records which they have. What a
// pod refuses holds back that pod only.
func updatePodConfig(p *pass) decision {
	if p.wanted == nil || p.cluster.Status.ConnectionString == "" {
		return decision{}
	}
	outdated := podfiles.Find(p.servers(), p.wanted, p.member)
	if len(outdated) == 0 {
		return decision{}
	}
	targets := texts(outdated, func(o podfiles.Outdated) string { return string(o.Group.ProcessGroupID) })
	return acts(outcome.Done(), act{
		Name: "refresh the files of pod", Targets: targets,
		Assume: func(p *pass) {
			for _, id := range targets {
				p.ours.Drop(v1beta2.ProcessGroupID(id), v1beta2.IncorrectConfigMap, p.now)
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			behind := 0
			var first error
			for _, o := range outdated {
				done, err := p.refresh(ctx, o)
				if err != nil && first == nil {
					first = err
				}
				if done {
					p.ours.Drop(o.Group.ProcessGroupID, v1beta2.IncorrectConfigMap, p.now)
				} else if !o.Group.Marked() || len(p.processes[o.Group.ProcessGroupID]) > 0 { // a silent one that goes holds nothing up
					behind++
				}
			}
			if behind == 0 {
				return outcome.Done()
			}
			if first != nil {
				return outcome.Later(startAgain, "PodConfigNotSynced", "%d of %d pods do not have their files yet: %v", behind, len(outdated), first)
			}
			return outcome.Later(startAgain, "PodConfigNotSynced", "%d of %d pods do not have their files yet", behind, len(outdated))
		},
	})
}

// refresh brings the files of one pod up to date, as far as that can be done now. A changed annotation makes
// the kubelet look for new files. A launcher tells itself which file it uses, so the hash of a pod of the
// unified image is recorded with that; that of a pod of the split image once its files have it.
func (p *pass) refresh(ctx context.Context, o podfiles.Outdated) (done bool, err error) {
	if o.Image == v1beta2.ImageTypeUnified {
		done = groups.LauncherHas(o.Pod, o.Conf)
	} else if class := classOf(o.Group); o.Variables == nil || foundationdb.StartsAsWanted(p.cluster, class, o.Pod, o.Variables) { // else the sidecar becomes another one
		done, err = o.Synced(ctx, p.sidecars, p.wanted.Data[foundationdb.ClusterFileKey])
		if err != nil {
			o.Unreachable = true
			p.ours.Add(o.Group.ProcessGroupID, v1beta2.SidecarUnreachable, p.now)
			return false, err
		}
	}
	if foundationdb.UpgradesIncompatibly(p.cluster) && !o.Present {
		done = false
	}
	annotations := o.Annotations(done, p.now)
	if len(annotations) == 0 {
		return done, nil
	}
	labels := map[string]string{}
	for _, l := range groups.Lacking(p.cluster, o.Group, o.Member) {
		if l.Child.GetUID() == o.Pod.UID { // one write does for all
			labels = l.Labels
			for name, value := range l.Annotations {
				annotations[name] = value
			}
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadataPatch(labels, annotations)})
	if err != nil {
		return false, err
	}
	return done, p.patch(ctx, o.Pod, patch)
}

// withStaleClusterFiles is a link that also gives servers the connection string which have been away for so long that none of the
// coordinators in their cluster file is there any more. They read the config map's file only while they have none of
// their own (--seed-cluster-file, fdbserver/fdbserver.actor.cpp at 7.3.69), so that neither new files nor a restart
// helps: without a write into the pod their group is replaced.
func withStaleClusterFiles(decide func(*pass) decision) func(*pass) decision {
	return func(p *pass) decision {
		d := decide(p)
		if p.options.WriteClusterFile == nil || p.silent() {
			return d
		}
		if pods := coordinators.Stale(p.servers(), p.memory.clusterFileWritten); len(pods) > 0 {
			d.Acts = append(d.Acts, writingClusterFiles(pods))
		}
		return d
	}
}

// writingClusterFiles is the act of giving pods the connection string, unless they have it.
func writingClusterFiles(pods []*corev1.Pod) act {
	return act{
		Name: "write the connection string into pod", Targets: objectNames(pods),
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			connection, err := fdb.ParseConnection(p.cluster.Status.ConnectionString)
			if err != nil {
				return outcome.Later(startAgain, fdb.DatabaseSilent, "%v", err)
			}
			p.event("ClusterFileWritten", "%s: the servers do not report, and their cluster file may name coordinators that are gone", some(objectNames(pods)))
			return each(ctx, slices.Clone(pods), "ClusterFileNotWritten", func(pod *corev1.Pod) error {
				p.memory.clusterFileWritten[pod.UID] = p.now
				return p.options.WriteClusterFile(ctx, pod, connection)
			})
		},
	}
}
