package rollout_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var fenced = regexp.MustCompile("(?ms)^```yaml[^\n]*\n(.*?)^```$")

// TestGuide: the API server takes each manifest of the guide, field for field.
func TestGuide(t *testing.T) {
	w := newQuietWorld(t)
	tried := 0
	for _, page := range []string{"rollouts.md", "from-argo-rollouts.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			for _, document := range strings.Split(block[1], "\n---\n") {
				o := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
					t.Fatalf("%s: %v\n%s", page, err, document)
				}
				if !strings.HasPrefix(o.GetAPIVersion(), "pawl.dev/") && o.GetAPIVersion() != "apps/v1" && o.GetKind() != "HorizontalPodAutoscaler" {
					continue
				}
				o.SetNamespace(w.namespace)
				strict := &client.CreateOptions{DryRun: []string{metav1.DryRunAll}, Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}}
				if err := w.client.Create(t.Context(), o, strict); err != nil {
					t.Errorf("%s: %v\n%s", page, err, document)
				}
				tried++
			}
		}
	}
	if tried < 8 {
		t.Errorf("%d manifests were tried", tried)
	}
}
