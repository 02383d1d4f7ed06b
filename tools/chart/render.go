package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Release is a release of the chart.
type Release struct{ Name, Namespace, By string }

// Install is the release of deploy/install.yaml.
var Install = Release{"pawl", "pawl-system", "kubectl"}

// Object is one object of a manifest.
type Object map[string]any

func (o Object) kind() string { s, _ := o["kind"].(string); return s }

func (o Object) meta() map[string]any { m, _ := o["metadata"].(map[string]any); return m }

func (o Object) name() string { s, _ := o.meta()["name"].(string); return s }

func (o Object) namespace() string { s, _ := o.meta()["namespace"].(string); return s }

func (o Object) String() string { return o.kind() + " " + o.namespace() + "/" + o.name() }

// Render returns the objects of a chart in the order of their application. It checks the
// values against the chart's schema.
func Render(dir string, r Release, values map[string]any) ([]Object, error) {
	rendered, err := renderFiles(dir, r, values)
	if err != nil {
		return nil, err
	}
	var all []Object
	for _, file := range slices.Sorted(maps.Keys(rendered)) {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		decoder := yaml.NewDecoder(strings.NewReader(rendered[file]))
		for {
			var o map[string]any
			err := decoder.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if len(o) > 0 {
				all = append(all, o)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Object) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.String(), b.String()))
	})
	return all, nil
}

// renderFiles returns the rendered text of all templates by file.
func renderFiles(dir string, r Release, values map[string]any) (map[string]string, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	if release, ok := all["Release"].(map[string]any); ok {
		release["Service"] = r.By
	}
	return engine.Render(chart, all)
}

// Kinds that others depend on come first.
var order = []string{"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"}

func rank(o Object) int {
	if n := slices.Index(order, o.kind()); n >= 0 {
		return n
	}
	return len(order)
}

const head = `# Pawl's operator, as the Helm chart in deploy/chart renders it by default.
# Written by ` + "`make generate`" + `: change the chart instead.
#
#   kubectl apply --server-side -f deploy/install.yaml
#
`

// manifest returns the manifest for kubectl: the namespace, then the chart.
func manifest(objects []Object) ([]byte, error) {
	namespace := Object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": Install.Namespace,
		"labels": map[string]any{
			"app.kubernetes.io/name": "pawl", "app.kubernetes.io/managed-by": Install.By,
			"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
		},
	}}
	var out bytes.Buffer
	out.WriteString(head)
	err := encode(&out, slices.Concat([]Object{namespace}, objects))
	return out.Bytes(), err
}

func encode(to io.Writer, objects []Object) error {
	encoder := yaml.NewEncoder(to)
	encoder.SetIndent(2)
	for _, o := range objects {
		if err := encoder.Encode(o); err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	return encoder.Close()
}
