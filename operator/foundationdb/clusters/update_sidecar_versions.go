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
// that are not made anew get back the sidecar that they were made with; while it is held they keep what they have.
func updateSidecarVersions(p *pass) decision {
	upgrade := foundationdb.UpgradesIncompatibly(p.cluster)
	if !upgrade && p.desired != p.cluster.Spec.Version {
		return decision{}
	}
	var outdated []*corev1.Pod
	var groups []v1beta2.ProcessGroupID
	images := map[string]string{}
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).Pod
		if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || !upgrade && g.Has(v1beta2.IncorrectPodSpec) {
			continue
		}
		image, err := foundationdb.SidecarImage(p.cluster, classOf(g))
		if have := foundationdb.ContainerImage(pod, foundationdb.SidecarContainer); err == nil && have != "" && have != image {
			outdated, groups = append(outdated, pod), append(groups, g.ProcessGroupID)
			images[pod.Name] = image
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
				return p.patch(ctx, pod, patch)
			})
		},
	})
}

// imagePatch is the merge patch that changes an image. Lists are replaced as a whole, so it holds for the
// pod as it was read only.
func imagePatch(pod *corev1.Pod, container, image string) ([]byte, error) {
	containers := pod.DeepCopy().Spec.Containers
	for i := range containers {
		if containers[i].Name == container {
			containers[i].Image = image
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": pod.ResourceVersion},
		"spec":     map[string]any{"containers": containers},
	})
}
