package local

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// Processes have no pods: settings of them are checked, and memory of pods is not asked for.
func TestSettingsOfPodsAreIgnored(t *testing.T) {
	for spec, want := range map[string]string{
		`{"hugePages": "1Gi", "sharedMemory": "64Gi", "scheduling": {"tolerations": [{"operator": "Exists"}]}}`: "",
		`{"podTemplate": {"metadata": {"labels": {"pawl.dev/role": "rw"}}}}`:                                    "podTemplate.metadata.labels[pawl.dev/role]: the operator owns it",
		`{"podTemplate": {"spec": {"containers": []}}}`:                                                         `unknown field "containers"`,
	} {
		got, err := specOf(control.Object{Ref: blue, Spec: json.RawMessage(spec)})
		if (err == nil) != (want == "") || err != nil && (fault.Of(err) != sharedstorage.SpecInvalid || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", spec, err)
		}
		if got.HugePages != nil || got.SharedMemory != nil {
			t.Errorf("%s: %v %v", spec, got.HugePages, got.SharedMemory)
		}
	}
}
