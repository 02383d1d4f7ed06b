package groups

import (
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// LauncherVersion is the version that the launcher starts servers with the next time.
func LauncherVersion(pod *corev1.Pod) string {
	var configuration struct {
		Version string `json:"version"`
	}
	if json.Unmarshal([]byte(pod.Annotations[foundationdb.LauncherConfigurationAnnotation]), &configuration) != nil {
		return ""
	}
	return configuration.Version
}

// LauncherHas reports whether the launcher has taken a configuration.
func LauncherHas(pod *corev1.Pod, configuration string) bool {
	return sameJSON(pod.Annotations[foundationdb.LauncherConfigurationAnnotation], configuration)
}

// sameJSON compares two documents by what they say.
func sameJSON(a, b string) bool {
	if a == b {
		return true
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
