package foundationdb

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TemplateLimits is what the owner of the operator forbids in the pod templates of users. The zero value allows all.
// What the operator adds to pods is never forbidden.
type TemplateLimits struct {
	NoHostNetwork, NoHostPID, NoHostIPC bool
	// NoAccountToken: templates must set automountServiceAccountToken to false.
	NoAccountToken bool
	// ServiceAccounts, VolumeSources (secret, configMap, …) and VolumeMounts (the names of volumes) are the allowed ones.
	// Empty: all.
	ServiceAccounts, VolumeSources, VolumeMounts []string
}

// ForbiddenInCluster returns what the limits forbid in the pod templates of a cluster. nil: nothing.
func ForbiddenInCluster(c *v1beta2.FoundationDBCluster, l TemplateLimits) []Problem {
	var p problems
	for _, class := range slices.Sorted(maps.Keys(c.Spec.Processes)) {
		p.template("spec.processes["+string(class)+"].podTemplate.spec.", c.Spec.Processes[class].PodTemplate, l)
	}
	if c.Spec.Processes[v1beta2.ProcessClass(fdb.ClassGeneral)].PodTemplate == nil {
		p.template("spec.processes[general].podTemplate.spec.", &corev1.PodTemplateSpec{}, l)
	}
	return p
}

// ForbiddenInBackup returns what the limits forbid in the pod template of a backup. nil: nothing.
func ForbiddenInBackup(b *v1beta2.FoundationDBBackup, l TemplateLimits) []Problem {
	var p problems
	template := b.Spec.PodTemplateSpec
	if template == nil {
		template = &corev1.PodTemplateSpec{}
	}
	p.template("spec.podTemplateSpec.spec.", template, l)
	return p
}

func (p *problems) template(path string, template *corev1.PodTemplateSpec, l TemplateLimits) {
	if template == nil {
		return
	}
	s := template.Spec
	const forbidden = "the operator's owner forbids it"
	p.add(l.NoHostNetwork && s.HostNetwork, path+"hostNetwork", forbidden)
	p.add(l.NoHostPID && s.HostPID, path+"hostPID", forbidden)
	p.add(l.NoHostIPC && s.HostIPC, path+"hostIPC", forbidden)
	p.add(l.NoAccountToken && or(s.AutomountServiceAccountToken, true), path+"automountServiceAccountToken", "it must be false: %s", forbidden)

	only := func(allowed []string, path, name string) {
		p.add(len(allowed) > 0 && name != "" && !slices.Contains(allowed, name), path, "%q is none of %s, which the operator's owner allows", name, strings.Join(allowed, ", "))
	}
	only(l.ServiceAccounts, path+"serviceAccountName", s.ServiceAccountName)
	only(l.ServiceAccounts, path+"serviceAccount", s.DeprecatedServiceAccount)
	for i, v := range s.Volumes {
		only(l.VolumeSources, fmt.Sprintf("%svolumes[%d]", path, i), sourceOf(v.VolumeSource))
	}
	mounts := func(list string, i int, mounts []corev1.VolumeMount) {
		for j, m := range mounts {
			only(l.VolumeMounts, fmt.Sprintf("%s%s[%d].volumeMounts[%d].name", path, list, i, j), m.Name)
		}
	}
	for i, c := range s.InitContainers {
		mounts("initContainers", i, c.VolumeMounts)
	}
	for i, c := range s.Containers {
		mounts("containers", i, c.VolumeMounts)
	}
	for i, c := range s.EphemeralContainers {
		mounts("ephemeralContainers", i, c.VolumeMounts)
	}
}

// sourceOf returns the JSON name of the source of a volume. Kubernetes takes none for emptyDir.
func sourceOf(source corev1.VolumeSource) string {
	v := reflect.ValueOf(source)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "emptyDir"
}
