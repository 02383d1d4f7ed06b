package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// BriefStatus returns the client with another way to patch the status of one kind: of the API server's
// answer it reads the new version only. An answer is the whole object otherwise, with managedFields
// that grow with its status; who writes often pays for that each time. The object keeps the status
// that was written.
//
// Errors are faults.
func (m *Manager) BriefStatus(c client.Client, kind schema.GroupVersionKind) (client.Client, error) {
	api, err := apiutil.RESTClientForGVK(kind, false, true, m.GetConfig(), serializer.NewCodecFactory(m.GetScheme()), m.GetHTTPClient())
	if err != nil {
		return nil, Fault(err)
	}
	return briefClient{c, &briefStatus{SubResourceWriter: c.Status(), api: api, mapper: m.GetRESTMapper(), kind: kind, owner: cmp.Or(m.options.FieldOwner, FieldOwner)}}, nil
}

type briefClient struct {
	client.Client
	status *briefStatus
}

// Status implements client.StatusClient.
func (c briefClient) Status() client.SubResourceWriter { return c.status }

// briefStatus patches the status of one kind.
type briefStatus struct {
	client.SubResourceWriter
	api    rest.Interface
	mapper meta.RESTMapper
	kind   schema.GroupVersionKind
	owner  string

	mu       sync.Mutex
	resource string
}

// table asks for the answer as rows without objects. Its metadata is the version of the object.
const table = "application/json;as=Table;v=v1;g=meta.k8s.io"

// Patch implements client.SubResourceWriter.
func (s *briefStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if len(opts) > 0 {
		return fmt.Errorf("controller: a brief patch of a status has no options, and got %v", opts)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	resource, err := s.resourceName()
	if err != nil {
		return Fault(err)
	}
	raw, err := s.api.Verb(http.MethodPatch).SetHeader("Content-Type", string(patch.Type())).SetHeader("Accept", table).
		Namespace(obj.GetNamespace()).Resource(resource).Name(obj.GetName()).SubResource("status").
		Param("includeObject", "None").Param("fieldManager", s.owner).Body(data).Do(ctx).Raw()
	if err != nil {
		return Fault(err)
	}
	var answer struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("controller: the answer to a patch of the status of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	if answer.Metadata.ResourceVersion == "" {
		return fmt.Errorf("controller: the answer to a patch of the status of %s has no version", client.ObjectKeyFromObject(obj))
	}
	obj.SetResourceVersion(answer.Metadata.ResourceVersion)
	return nil
}

// resourceName finds the name of the kind in paths; the kind may be installed later than the client is
// made.
func (s *briefStatus) resourceName() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resource == "" {
		mapping, err := s.mapper.RESTMapping(s.kind.GroupKind(), s.kind.Version)
		if err != nil {
			return "", err
		}
		s.resource = mapping.Resource.Resource
	}
	return s.resource, nil
}
