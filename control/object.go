package control

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns kind/namespace/name: the key of an object in a Feed and the subject of its runs.
func (r Ref) String() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// ParseRef parses kind/namespace/name. It returns OBJECT_INVALID for any other text.
func ParseRef(text string) (Ref, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Ref{}, Invalid.Errorf("%q is not kind/namespace/name", text)
	}
	ref := Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
	return ref, ref.Validate()
}

// Owner names the object that another one belongs to.
type Owner struct {
	Ref
	UID string `json:"uid,omitempty"`
}

// Object is a standalone object: what Kubernetes calls a custom resource, in our own store.
//
//	{"kind": "demo", "namespace": "default", "name": "c1", "uid": "8c5f…", "revision": 42,
//	 "generation": 2, "createdAt": "2025-01-02T03:04:05Z",
//	 "labels": {"tier": "gold"}, "spec": {"readers": 2}, "status": {"readers": 1}}
type Object struct {
	Ref
	UID         string            `json:"uid,omitempty"` // set by the store at creation, as are Generation, Revision, DeletionMark and CreatedAt
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        json.RawMessage   `json:"spec,omitempty"`   // a JSON object: the desired state
	Status      json.RawMessage   `json:"status,omitempty"` // a JSON object or absent: the observed state; only Update writes it
	// Generation is the version of the spec: 1 at creation, and one more with each change of the spec and with the deletion mark.
	Generation int64 `json:"generation,omitempty"`
	// Revision is the version of the record, for compare-and-swap. It rises with every
	// change, also when an object is deleted and created again under the same name.
	Revision int64 `json:"revision,omitempty"`
	// Finalizers hold a deleted object until the last of them is removed by Update.
	Finalizers []string `json:"finalizers,omitempty"`
	// DeletionMark is the time when deletion was requested; zero: it was not.
	DeletionMark time.Time `json:"deletionMark,omitzero"`
	CreatedAt    time.Time `json:"createdAt,omitzero"`
	Owner        *Owner    `json:"owner,omitempty"`
}

// Deleting reports whether the object has the deletion mark.
func (o Object) Deleting() bool { return !o.DeletionMark.IsZero() }

// Copy returns a deep copy.
func (o Object) Copy() Object {
	o.Labels, o.Annotations = maps.Clone(o.Labels), maps.Clone(o.Annotations)
	o.Spec, o.Status = bytes.Clone(o.Spec), bytes.Clone(o.Status)
	o.Finalizers = slices.Clone(o.Finalizers)
	if o.Owner != nil {
		o.Owner = new(*o.Owner)
	}
	return o
}

// Equal compares all but the revision.
func (o Object) Equal(other Object) bool {
	return o.Ref == other.Ref && o.UID == other.UID && o.Generation == other.Generation &&
		maps.Equal(o.Labels, other.Labels) && maps.Equal(o.Annotations, other.Annotations) &&
		bytes.Equal(o.Spec, other.Spec) && bytes.Equal(o.Status, other.Status) &&
		slices.Equal(o.Finalizers, other.Finalizers) &&
		o.DeletionMark.Equal(other.DeletionMark) && o.CreatedAt.Equal(other.CreatedAt) &&
		(o.Owner == nil) == (other.Owner == nil) && (o.Owner == nil || *o.Owner == *other.Owner)
}

// NewUID returns a random version 4 UUID.
func NewUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// canonical returns the canonical form of a JSON object: keys sorted, no white space, numbers unchanged.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errors.New("it is null")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the closing brace")
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}
