package local

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var blue = control.Ref{Kind: sharedstorage.Kind, Namespace: "default", Name: "blue"}

// What the CRD rejects is rejected standalone, too: when it is stored and when it is read.
func TestASpecThatCannotBeIsRefused(t *testing.T) {
	const had = `{"engine": {"version": "15.2"}, "storage": {"size": "2Gi"}, "cloneFrom": "a"}`
	for _, c := range []struct {
		spec string
		code fault.Code
	}{
		{`{"engine": {"version": "15.4"}, "storage": {"size": "3Gi"}, "cloneFrom": "a"}`, ""},
		{`{"engine": {"version": "15"}, "storage": {"size": "1Gi"}, "cloneFrom": "a"}`, "STORAGE_SHRINK"},
		{`{"engine": {"version": "16"}, "storage": {"size": "2Gi"}, "cloneFrom": "a"}`, "VERSION_UNSUPPORTED"},
		{`{"storage": {"size": "2Gi"}}`, "SPEC_INVALID"},
		{`{"raeders": 2}`, "SPEC_INVALID"},
		{`{"readers": 16}`, "SPEC_INVALID"},
		{`{"readers": "many"}`, "SPEC_INVALID"},
		{`{"durability": "none"}`, "SPEC_INVALID"},
		{`{"engine": {"type": "oracle"}}`, "SPEC_INVALID"},
		{`{"engine": {"version": "newest"}}`, "SPEC_INVALID"},
		{`{"storage": {"onDelete": "Burn"}}`, "SPEC_INVALID"},
	} {
		stored := control.NewMemory()
		objects := Admit(stored)
		if _, err := objects.Apply(t.Context(), control.Object{Ref: blue, Spec: json.RawMessage(had)}); err != nil {
			t.Fatal(err)
		}
		_, err := objects.Apply(t.Context(), control.Object{Ref: blue, Spec: json.RawMessage(c.spec)})
		if got := codeOf(err); got != c.code {
			t.Errorf("%s: %q, want %q: %v", c.spec, got, c.code, err)
		}
	}
	cluster, err := ClusterStore{}.Of(control.Object{Ref: blue, Spec: json.RawMessage(`{"raeders": 2, "durability": "available"}`)})
	if err != nil || codeOf(cluster.Refused) != "SPEC_INVALID" || !strings.Contains(cluster.Refused.Error(), "raeders") || cluster.Spec.Durability != "available" {
		t.Errorf("a spec that was stored behind the server: %+v, %v", cluster, err)
	}
}

func codeOf(err error) fault.Code {
	if err == nil {
		return ""
	}
	return fault.Of(err).Code
}

// An empty spec has the defaults of the CRD.
func TestDefaults(t *testing.T) {
	c, err := ClusterStore{}.Of(control.Object{Ref: blue})
	if err != nil || c.Refused != nil {
		t.Fatal(err, c.Refused)
	}
	raw, err := json.Marshal(c.Spec)
	if want := `{"engine":{"type":"postgres"},"class":{"name":"small"},"readers":2,"storage":{"size":"10Gi","onDelete":"Retain"},"ha":{"enabled":true},"durability":"strict","scheduling":{"spread":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule"}}`; err != nil || string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

// A spec with a major version means its newest installed version; one without a version keeps the
// major version of the cluster.
func TestVersionsOfASpec(t *testing.T) {
	h := ClusterStore{Placement: &Placement{o: Options{Versions: map[string]string{"15.2": "a", "15.10": "b", "16.1": "c"}}}}
	for _, c := range [][3]string{{"15", "", "15.10"}, {"15.2", "15.2", "15.2"}, {"", "", "16.1"}, {"", "15.2", "15.10"}, {"17", "", "17"}} {
		if got := h.version(c[0], c[1]); got != c[2] {
			t.Errorf("%q with a cluster of %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// A write succeeds only on the version that was read. It sets and removes the finalizer as asked,
// and keeps what others have added to the object.
func TestWritesAreGuarded(t *testing.T) {
	objects := control.NewMemory()
	h := ClusterStore{Objects: objects}
	if _, err := objects.Apply(t.Context(), control.Object{Ref: blue, Finalizers: []string{"a/b"}, Annotations: map[string]string{"pawl.dev/restart": "2"}}); err != nil {
		t.Fatal(err)
	}
	ref := port.Ref{Namespace: "default", Name: "blue"}
	first, err := h.Load(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Load(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Annotate(t.Context(), first, "pawl.dev/restart", "3", ""); !errors.Is(err, fault.WriteConflict) {
		t.Errorf("an annotation with a third value: %v", err)
	}
	first.Finalized, first.Status.State = true, "Creating"
	if err := errors.Join(h.Save(t.Context(), first), h.Annotate(t.Context(), first, "pawl.dev/restart", "2", "2#x")); err != nil {
		t.Error("the version that a save gives is not the newest:", err)
	}
	if err := h.Save(t.Context(), second); !errors.Is(err, fault.WriteConflict) {
		t.Errorf("a save of an old version: %v", err)
	}
	o, err := objects.Get(t.Context(), blue)
	if err != nil || len(o.Finalizers) != 2 || o.Annotations["pawl.dev/restart"] != "2#x" || !strings.Contains(string(o.Status), `"Creating"`) || strings.Contains(string(o.Status), "null") {
		t.Errorf("%+v: %v", o, err)
	}
	if _, err := h.Load(t.Context(), port.Ref{Namespace: "default", Name: "green"}); !errors.Is(err, control.NotFound) {
		t.Errorf("a cluster that is not there: %v", err)
	}
}

// A namespace has the classes of its ConfigMap, or the default ones.
func TestClasses(t *testing.T) {
	objects := control.NewMemory()
	h := ClusterStore{Objects: objects}
	if all, err := h.Classes(t.Context(), "default"); err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	list := control.Object{Ref: control.Ref{Kind: "ConfigMap", Namespace: "default", Name: sharedstorage.ClassesName}, Spec: json.RawMessage(`{"data": {"wide": "cpu: 500m\nmemory: 1Gi\nparameters: {max_connections: \"150\"}\n"}}`)}
	if _, err := objects.Apply(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	all, err := h.Classes(t.Context(), "default")
	if wide := all["wide"]; err != nil || len(all) != 1 || wide.Name != "wide" || wide.CPU != 500 || wide.Memory != 1<<30 || wide.Parameters["max_connections"] != "150" {
		t.Errorf("%+v: %v", all, err)
	}
	list.Spec = json.RawMessage(`{"data": {"wide": "cores: 1"}}`)
	if _, err := objects.Apply(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Classes(t.Context(), "default"); codeOf(err) != "SPEC_INVALID" {
		t.Errorf("a class that cannot be read: %v", err)
	}
}
