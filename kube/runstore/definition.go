package runstore

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// definitions keeps the sources of flows.
type definitions struct{ *shared }

// definitionKey is the key of a definition in its ConfigMap: JSON, compressed. There is
// one ConfigMap per hash, shared by all runs.
const definitionKey = "definition.json.gz"

func (s *definitions) definitionRef(hash string) client.Ref {
	return client.Ref{Resource: "configmaps", Namespace: s.o.Namespace, Name: "pawl-flow-" + format.Digest(hash)}
}

// PutDefinition stores a flow. See runstore.Definitions.
func (s *Store) PutDefinition(ctx context.Context, d runstore.Definition) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	r := s.definitions.definitionRef(d.Hash)
	_, err = s.client.Post(ctx, r, format.Tree{
		"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "metadata": format.NewMeta(r.Name, r.Namespace, map[string]string{format.LabelKind: "flow"}),
		"data":       map[string]string{"flow": d.Flow, "hash": d.Hash},
		"binaryData": map[string]string{definitionKey: base64.StdEncoding.EncodeToString(packed.Bytes())},
	})
	if client.IsExisting(err) {
		return nil
	}
	return client.StoreError(ctx, "keeping the definition of flow "+d.Flow, err)
}

// Definition returns a flow by its hash. ErrNotFound.
func (s *Store) Definition(ctx context.Context, hash string) (runstore.Definition, error) {
	m, err := s.definitions.definition(ctx, hash)
	if err != nil {
		if client.IsNotFound(err) {
			return runstore.Definition{}, runstore.ErrNotFound
		}
		return runstore.Definition{}, client.StoreError(ctx, "reading the definition "+hash, err)
	}
	var d runstore.Definition
	z, err := gzip.NewReader(bytes.NewReader(m.BinaryData[definitionKey]))
	if err == nil {
		var data []byte
		if data, err = io.ReadAll(z); err == nil {
			err = json.Unmarshal(data, &d)
		}
	}
	if err != nil {
		return d, runstore.StoreCorrupt.Errorf("definition %s (ConfigMap %s/%s): %w", hash, m.Namespace, m.Name, err)
	}
	return d, nil
}

// definition reads the object of a definition. A client does not know in which namespace
// the workers keep it, and may lack the right to list all namespaces.
func (s *definitions) definition(ctx context.Context, hash string) (m corev1.ConfigMap, err error) {
	r := s.definitionRef(hash)
	err = s.client.Get(ctx, r, &m)
	if !s.o.Client || err == nil || !client.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return m, err
	}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: r.Resource}, r.Name)
	var all corev1.ConfigMapList
	err = s.client.List(ctx, client.Ref{Group: r.Group, Resource: r.Resource}, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Name, LabelSelector: format.LabelKind + "=flow"}, &all)
	switch {
	case apierrors.IsForbidden(err) || err == nil && len(all.Items) == 0:
		return m, missing
	case err != nil:
		return m, err
	}
	return all.Items[0], nil
}
