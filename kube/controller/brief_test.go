package controller

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
)

// TestBriefStatus: a patch of a status reads the version of the answer, keeps what was written, and
// its errors are faults.
func TestBriefStatus(t *testing.T) {
	status, answer, asked := http.StatusOK, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"8"},"rows":[]}`, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = fmt.Sprintf("%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body)
		if !strings.Contains(r.Header.Get("Accept"), "as=Table") {
			t.Errorf("it accepts %s", r.Header.Get("Accept"))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: server.URL}
	m, err := NewManager(config, Options{Scheme: scheme, Log: quiet, NoLeaderElection: true})
	if err != nil {
		t.Fatal(err)
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	c, err := m.BriefStatus(m.GetClient(), kind)
	if err != nil {
		t.Fatal(err)
	}
	c.Status().(*briefStatus).mapper = mapper
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "u", ResourceVersion: "7"}}
	draft, err := NewDraft(c, pod)
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Message = "here"
	if wrote, err := draft.Save(t.Context()); !wrote || err != nil {
		t.Fatal(wrote, err)
	}
	want := `PATCH /api/v1/namespaces/n/pods/a/status?fieldManager=pawl&includeObject=None application/merge-patch+json {"metadata":{"resourceVersion":"7","uid":"u"},"status":{"message":"here"}}`
	if asked != want {
		t.Errorf("it sent\n%s\nexpected\n%s", asked, want)
	}
	if pod.ResourceVersion != "8" || pod.Status.Message != "here" || draft.Changed() {
		t.Errorf("afterwards: %+v", pod)
	}
	status, answer = http.StatusConflict, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"changed"}`
	pod.Status.Message = "there"
	if _, err := draft.Save(t.Context()); !errors.Is(err, fault.WriteConflict) {
		t.Errorf("a conflict: %v", err)
	}
	status, answer = http.StatusOK, `{"kind":"Table"}`
	if _, err := draft.Save(t.Context()); err == nil {
		t.Error("an answer without a version")
	}
	if err := c.Status().Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", nil), client.FieldOwner("me")); err == nil {
		t.Error("options are not passed on, and were taken")
	}
}
