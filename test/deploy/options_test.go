package deploy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/deploy"
)

// allOptions returns all options that a cluster without the Prometheus operator accepts.
func allOptions(namespace string) map[string]any {
	type m = map[string]any
	type l = []any
	label := m{"team": "data"}
	return m{
		"namespaces":        l{namespace},
		"image":             m{"digest": "sha256:" + strings.Repeat("a", 64), "pullPolicy": "Always"},
		"imagePullSecrets":  l{m{"name": "registry"}},
		"operator":          m{"name": "ours", "engineVersion": "15", "storageClass": "fast", "runs": "ConfigMap", "extraArgs": l{"--workers=4"}, "extraEnv": l{m{"name": "GODEBUG", "value": "gctrace=1"}}},
		"crds":              m{"mpd": true},
		"serviceAccount":    m{"annotations": label},
		"rbac":              m{"extraRules": l{m{"apiGroups": l{""}, "resources": l{"limitranges"}, "verbs": l{"get"}}}},
		"podAnnotations":    label,
		"podLabels":         label,
		"nodeSelector":      label,
		"tolerations":       l{m{"key": "data", "operator": "Exists", "effect": "NoSchedule"}},
		"affinity":          m{"nodeAffinity": m{"requiredDuringSchedulingIgnoredDuringExecution": m{"nodeSelectorTerms": l{m{"matchExpressions": l{m{"key": "disk", "operator": "In", "values": l{"ssd"}}}}}}}},
		"priorityClassName": "system-cluster-critical",
		"metrics":           m{"port": 9000, "tokenSecret": m{"name": "scrape", "key": "key"}},
		"dashboard":         m{"enabled": true},
		"networkPolicy":     m{"enabled": true, "metricsFrom": l{m{"namespaceSelector": m{"matchLabels": m{"name": "monitoring"}}}}, "apiServerPorts": l{443}},
		"topologySpreadConstraints": l{m{
			"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": m{"matchLabels": m{"app.kubernetes.io/name": "pawl"}},
		}},
	}
}

// The API server accepts the chart with the defaults and with all options, validates each
// field, and finds its pods within the Pod Security Standard "restricted".
func TestOptions(t *testing.T) {
	h := newFixture(t, deploy.Namespace, deploy.Name)
	h.kubectl("label", "namespace", h.namespace, "pod-security.kubernetes.io/warn=restricted")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	for name, c := range map[string]struct {
		values map[string]any
		kinds  []string
	}{
		"defaults":   {nil, []string{"customresourcedefinition", "poddisruptionbudget", "deployment", "clusterrole"}},
		"everything": {allOptions(h.namespace), []string{"networkpolicy", "poddisruptionbudget", "configmap", "service", "role", "rolebinding", "deployment"}},
	} {
		objects, err := deploy.Chart(ctx, "options", h.namespace, c.values)
		if err != nil {
			t.Fatal(err)
		}
		out, err := deploy.Kubectl(ctx, h.plane, objects, "apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(out, "Warning") || strings.Count(out, "serverside-applied (server dry run)") != len(objects) {
			t.Errorf("%s: %d objects:\n%s", name, len(objects), out)
		}
		for _, kind := range c.kinds {
			if !strings.Contains(out, "\n"+kind+".") && !strings.Contains(out, "\n"+kind+"/") && !strings.HasPrefix(out, kind+".") {
				t.Errorf("%s: there is no %s:\n%s", name, kind, out)
			}
		}
	}
}
