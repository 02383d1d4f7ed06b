package clusters

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	staleFileFor   = 3 * time.Minute  // servers that are silent for less may still come
	staleFileAgain = 15 * time.Minute // until the file of the same pod is looked at again
)

// withStaleClusterFiles is a link that also gives servers the connection string which have been away for so long that none of the
// coordinators in their cluster file is there any more. They read the config map's file only while they have none of
// their own (--seed-cluster-file, fdbserver/fdbserver.actor.cpp at 7.3.69), so that neither new files nor a restart
// helps: without a write into the pod their group is replaced.
func withStaleClusterFiles(decide func(*pass) decision) func(*pass) decision {
	return func(p *pass) decision {
		d := decide(p)
		if pods := p.staleClusterFiles(); len(pods) > 0 {
			d.Acts = append(d.Acts, p.writingClusterFiles(pods))
		}
		return d
	}
}

// staleClusterFiles are the pods that run, although none of their servers reports to a database that is available.
func (p *pass) staleClusterFiles() []*corev1.Pod {
	if p.options.WriteClusterFile == nil || p.silent() || !p.cluster.Status.Configured || !p.cluster.Status.Health.Available || !quorum(p.status) {
		return nil
	}
	var pods []*corev1.Pod
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).pod
		if g.Marked() || !classOf(g).Stateful() || !g.Lasts(v1beta2.MissingProcesses, staleFileFor, p.now) || len(p.processes[g.ProcessGroupID]) > 0 || !runs(pod) {
			continue
		}
		if at, done := p.memory.clusterFileWritten[pod.UID]; !done || p.now.Sub(at) > staleFileAgain {
			pods = append(pods, pod)
		}
	}
	return pods
}

// runs reports whether the main container of a pod runs, also where it is not ready, as its servers do not serve.
func runs(pod *corev1.Pod) bool {
	return pod != nil && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil && !isolated(pod)
}

// writingClusterFiles is the act of giving pods the connection string, unless they have it.
func (p *pass) writingClusterFiles(pods []*corev1.Pod) act {
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
