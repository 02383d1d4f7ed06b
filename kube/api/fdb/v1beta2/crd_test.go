package v1beta2_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

type crd struct {
	Spec struct {
		Names    struct{ ShortNames, Categories []string }
		Versions []struct {
			Name                     string
			Subresources             map[string]any
			AdditionalPrinterColumns []struct {
				Name     string
				Priority int
			}
			Schema struct {
				OpenAPIV3Schema schema `json:"openAPIV3Schema"`
			}
		}
	}
}

type schema struct {
	Type       string
	Default    any
	Enum       []any
	Pattern    string
	Keep       bool `json:"x-kubernetes-preserve-unknown-fields"`
	Properties map[string]schema
	Items      *schema
	Values     any `json:"additionalProperties"`
}

func read(t *testing.T, plural string) crd {
	t.Helper()
	text, err := os.ReadFile("../../../../deploy/fdb/apps.foundationdb.org_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c crd
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestColumns: kubectl get is the first interface, and its columns are in the CRD.
func TestColumns(t *testing.T) {
	for plural, want := range map[string]string{
		"foundationdbclusters": "Generation Reconciled Available FullReplication Version Age; Groups Waiting Running; fdb; pawl",
		"foundationdbbackups":  "Generation Reconciled Running Restorable Paused Tag Age; ; fdbbackup; pawl",
		"foundationdbrestores": "State Tag Started Completed Age; ; fdbrestore; pawl",
	} {
		c := read(t, plural)
		v := c.Spec.Versions[0]
		var columns, wide []string
		for _, column := range v.AdditionalPrinterColumns {
			if column.Priority > 0 {
				wide = append(wide, column.Name)
			} else {
				columns = append(columns, column.Name)
			}
		}
		join := func(list []string) string { return strings.Join(list, " ") }
		got := strings.Join([]string{join(columns), join(wide), join(c.Spec.Names.ShortNames), join(c.Spec.Names.Categories)}, "; ")
		if got != want {
			t.Errorf("%s: %s, expected %s", plural, got, want)
		}
		if _, ok := v.Subresources["status"]; !ok || v.Name != "v1beta2" || len(c.Spec.Versions) != 1 {
			t.Errorf("%s: version %s of %d, subresources %v", plural, v.Name, len(c.Spec.Versions), v.Subresources)
		}
	}
}

// TestUnknownFields: the API server keeps unknown fields in each object of a spec that is ours.
func TestUnknownFields(t *testing.T) {
	kubernetes := []string{"podTemplate", "podTemplateSpec", "volumeClaimTemplate", "configMap", "backupDeploymentMetadata", "excluded_servers"}
	var check func(path string, s schema)
	check = func(path string, s schema) {
		if len(s.Properties) > 0 && !s.Keep {
			t.Errorf("%s loses unknown fields", path)
		}
		for name, field := range s.Properties {
			if !slices.Contains(kubernetes, name) {
				check(path+"."+name, field)
			}
		}
		if s.Items != nil {
			check(path+"[]", *s.Items)
		}
	}
	for _, plural := range []string{"foundationdbclusters", "foundationdbbackups", "foundationdbrestores"} {
		check(plural, read(t, plural).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	}
}

// TestSchemaDefaults: the API server fills in the defaults that the published schema fills in, and none in a
// status, which would differ from what the operator writes.
func TestSchemaDefaults(t *testing.T) {
	found := map[string]any{}
	var collect func(path string, s schema)
	collect = func(path string, s schema) {
		if s.Default != nil {
			found[path] = s.Default
		}
		for name, field := range s.Properties {
			if name != "podTemplate" && name != "podTemplateSpec" && name != "volumeClaimTemplate" {
				collect(path+"."+name, field)
			}
		}
		if s.Items != nil {
			collect(path+"[]", *s.Items)
		}
	}
	for _, plural := range []string{"foundationdbclusters", "foundationdbbackups", "foundationdbrestores"} {
		for name, field := range read(t, plural).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties {
			collect(strings.TrimPrefix(plural, "foundationdb")+"."+name, field)
		}
	}
	// config/crd/bases of FoundationDB/fdb-kubernetes-operator v2.33.0; it also has one for storage_engine.
	want := map[string]any{
		"clusters.spec.automationOptions.deletionMode":                           "Zone",
		"clusters.spec.automationOptions.removalMode":                            "Zone",
		"clusters.spec.automationOptions.podUpdateStrategy":                      "ReplaceTransactionSystem",
		"clusters.spec.automationOptions.synchronizationMode":                    "local",
		"clusters.spec.automationOptions.replacements.maxConcurrentReplacements": float64(1),
		"clusters.spec.imageType":                                                "unified",
		"clusters.spec.minimumUptimeSecondsForBounce":                            float64(600),
		"clusters.spec.replaceInstancesWhenResourcesChange":                      false,
		"clusters.spec.skip":                                                     false,
		"backups.spec.allowTagOverride":                                          false,
		"backups.spec.backupMode":                                                "continuous",
		"backups.spec.backupType":                                                "backup_agent",
		"backups.spec.deletionPolicy":                                            "noop",
		"backups.spec.imageType":                                                 "split",
	}
	for path, value := range want {
		if found[path] != value {
			t.Errorf("default of %s: %v, expected %v", path, found[path], value)
		}
		delete(found, path)
	}
	for path, value := range found {
		t.Errorf("an unexpected default: %s: %v", path, value)
	}
}
