package clusters

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
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
	targets := make([]string, len(outdated))
	for i, o := range outdated {
		targets[i] = string(o.Group.ProcessGroupID)
	}
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
	} else {
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

// updateConfigMap writes the files that pods read. Labels and annotations that others have added stay.
func updateConfigMap(p *pass) decision {
	if p.wanted == nil || covers(p.configMap, p.wanted) {
		return decision{}
	}
	assume := func(p *pass) {
		p.configMap = p.wanted
		p.cluster.Status.HasIncorrectConfigMap = false
	}
	name := "create config map"
	if p.configMap != nil {
		name = "change config map"
	}
	return acts(outcome.Done(), act{
		Name: name, Targets: []string{p.wanted.Name}, Assume: assume,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			written := p.wanted.DeepCopy()
			var err error
			if p.configMap == nil {
				err = p.objects.Create(ctx, written)
			} else {
				var patch []byte
				if patch, err = configMapPatch(p.configMap, p.wanted); err == nil {
					err = p.objects.Patch(ctx, written, patch)
				}
			}
			if errors.Is(err, control.Exists) || errors.Is(err, control.NotFound) {
				return outcome.Later(settleAgain, "ConfigMapChanges", "%v", err)
			}
			if err != nil {
				return outcome.Fail(err)
			}
			assume(p)
			return outcome.Done()
		},
	})
}

// configMapPatch is the merge patch that makes a stored config map what is wanted: files that are not
// wanted any more go, labels and annotations do not.
func configMapPatch(stored, wanted *corev1.ConfigMap) ([]byte, error) {
	data := map[string]any{}
	for key := range stored.Data {
		if _, ok := wanted.Data[key]; !ok {
			data[key] = nil
		}
	}
	for key, text := range wanted.Data {
		if stored.Data[key] != text {
			data[key] = text
		}
	}
	labels, annotations := foundationdb.Lacking(stored, wanted.Labels, wanted.Annotations)
	return json.Marshal(map[string]any{"data": data, "metadata": metadataPatch(labels, annotations)})
}

// metadataPatch is the part of a merge patch that adds labels and annotations. An empty map is left out: a
// null would remove them all.
func metadataPatch(labels, annotations map[string]string) map[string]any {
	patch := map[string]any{}
	if len(labels) > 0 {
		patch["labels"] = labels
	}
	if len(annotations) > 0 {
		patch["annotations"] = annotations
	}
	return patch
}
