package clusters

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// updateSidecarVersions gives every running pod the sidecar of the version that comes, which brings the
// binaries. Images of containers are the one thing of a pod that can be changed. Once an upgrade is taken back, pods
// that are not made anew get back the sidecar that they were made with, and so do pods whose servers restart for a
// conversion before they are made anew: they would start with the version that nobody wants. While an upgrade is held,
// only pods whose servers are to restart get it back.
func updateSidecarVersions(p *pass) decision {
	upgrade, converts, held := foundationdb.UpgradesIncompatibly(p.cluster), foundationdb.ConvertsTLS(p.cluster), p.desired != p.cluster.Spec.Version
	var outdated []*corev1.Pod
	var groups []v1beta2.ProcessGroupID
	images := map[string]string{}
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).Pod
		if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		image := foundationdb.ImageTypeOf(pod)
		restarts := g.Has(v1beta2.IncorrectCommandLine) || g.Has(v1beta2.IncorrectConfigMap) && image == v1beta2.ImageTypeSplit
		madeAnew := g.Has(v1beta2.IncorrectPodSpec) && !held && !(g.Marked() && restarts)
		if !upgrade && !converts && (madeAnew || held && !restarts) {
			continue
		}
		want, err := foundationdb.SidecarImage(p.cluster, classOf(g), image)
		if have := foundationdb.ContainerImage(pod, foundationdb.SidecarContainer); err == nil && have != "" && have != want {
			outdated, groups = append(outdated, pod), append(groups, g.ProcessGroupID)
			images[pod.Name] = want
		}
	}
	if len(outdated) == 0 {
		return decision{}
	}
	return acts(outcome.Done(), act{
		Name: "change sidecar image", Targets: objectNames(outdated),
		Assume: func(p *pass) {
			for _, id := range groups {
				p.ours.Drop(id, v1beta2.IncorrectSidecarImage, p.now)
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, outdated, "SidecarNotChanged", func(pod *corev1.Pod) error {
				patch, err := imagePatch(pod, foundationdb.SidecarContainer, images[pod.Name])
				if err != nil {
					return err
				}
				if err := p.patch(ctx, pod, patch); err != nil {
					return err
				}
				if id, ok := p.ownerOf(pod); ok && foundationdb.ImageTypeOf(pod) == v1beta2.ImageTypeSplit {
					p.ours.Add(id, v1beta2.IncorrectConfigMap, p.now)
				}
				return nil
			})
		},
	})
}

// imagePatch is the merge patch that changes an image. Lists are replaced as a whole, so it holds for the
// pod as it was read only. The files of a split pod, which name the program of the sidecar that has made them, are
// outdated from then on.
func imagePatch(pod *corev1.Pod, container, image string) ([]byte, error) {
	containers := pod.DeepCopy().Spec.Containers
	for i := range containers {
		if containers[i].Name == container {
			containers[i].Image = image
		}
	}
	metadata := map[string]any{"resourceVersion": pod.ResourceVersion}
	if foundationdb.ImageTypeOf(pod) == v1beta2.ImageTypeSplit {
		metadata["annotations"] = map[string]string{foundationdb.ConfigAnnotation: ""}
	}
	return json.Marshal(map[string]any{
		"metadata": metadata,
		"spec":     map[string]any{"containers": containers},
	})
}
