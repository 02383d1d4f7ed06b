package clusters

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

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
