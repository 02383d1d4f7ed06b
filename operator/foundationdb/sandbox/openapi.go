package sandbox

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// documents are where the documents of OpenAPI are.
func documents() any {
	paths := map[string]any{}
	for _, v := range versions() {
		paths[strings.TrimPrefix(base(v), "/")] = map[string]any{"serverRelativeURL": "/openapi/v3" + base(v)}
	}
	return map[string]any{"paths": paths}
}

// document says no more than that fields are validated here, so that kubectl leaves it to us: there are no schemas.
func document(v schema.GroupVersion) any {
	validated := []any{map[string]any{"name": "fieldValidation", "in": "query", "schema": map[string]any{"type": "string"}}}
	paths := map[string]any{}
	for _, k := range kinds {
		if k.version != v || k.object == nil {
			continue
		}
		path := base(v) + "/namespaces/{namespace}/" + k.Name
		if !k.Namespaced {
			path = base(v) + "/" + k.Name
		}
		operation := map[string]any{"parameters": validated, "x-kubernetes-group-version-kind": metav1.GroupVersionKind{Group: v.Group, Version: v.Version, Kind: k.Kind}}
		paths[path] = map[string]any{"post": operation}
		paths[path+"/{name}"] = map[string]any{"patch": operation, "put": operation}
	}
	return map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "Kubernetes", "version": "sandbox"}, "paths": paths}
}
