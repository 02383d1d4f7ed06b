package v1alpha1

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRolloutColumns: kubectl get prol is the first interface, and its columns are in the CRD.
func TestRolloutColumns(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/crds/pawl.dev_rollouts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Names    struct{ ShortNames, Categories []string }
			Versions []struct {
				AdditionalPrinterColumns []struct {
					Name     string
					Priority int
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	var columns, wide []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		if c.Priority > 0 {
			wide = append(wide, c.Name)
		} else {
			columns = append(columns, c.Name)
		}
	}
	got := strings.Join([]string{strings.Join(columns, " "), strings.Join(wide, " "), strings.Join(crd.Spec.Names.ShortNames, " "), strings.Join(crd.Spec.Names.Categories, " ")}, "; ")
	if want := "State Batch Updated Ready Waiting Age; Target Since Remedy; prol; pawl"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}
