package foundationdb

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestForbidden(t *testing.T) {
	all := TemplateLimits{NoHostNetwork: true, NoHostPID: true, NoHostIPC: true, NoAccountToken: true,
		ServiceAccounts: []string{"fdb", "other"}, VolumeSources: []string{"secret", "emptyDir"}, VolumeMounts: []string{"certs"}}
	const bad = `
hostNetwork: true
hostPID: true
hostIPC: true
serviceAccountName: root
serviceAccount: root
volumes: [{name: a, secret: {}}, {name: b, hostPath: {path: /}}, {name: c, persistentVolumeClaim: {claimName: x}}, {name: d}]
initContainers: [{name: i, volumeMounts: [{name: b}]}]
containers: [{name: c, volumeMounts: [{name: certs}, {name: b}]}]
ephemeralContainers: [{name: e, volumeMounts: [{name: data}]}]
`
	for _, x := range []struct {
		name, spec string
		limits     TemplateLimits
		want       string
	}{
		{"no limits", bad, TemplateLimits{}, ""},
		{"all limits", bad, all, "hostNetwork hostPID hostIPC automountServiceAccountToken serviceAccountName serviceAccount volumes[1] volumes[2] " +
			"initContainers[0].volumeMounts[0].name containers[0].volumeMounts[1].name ephemeralContainers[0].volumeMounts[0].name"},
		{"what is allowed", `
automountServiceAccountToken: false
serviceAccountName: fdb
volumes: [{name: certs, secret: {}}]
containers: [{name: c, volumeMounts: [{name: certs}]}]
`, all, ""},
		{"the token by default", ``, TemplateLimits{NoAccountToken: true}, "automountServiceAccountToken"},
		{"the token on purpose", `automountServiceAccountToken: true`, TemplateLimits{NoAccountToken: true}, "automountServiceAccountToken"},
		{"the default account", `automountServiceAccountToken: false`, all, ""},
	} {
		b := &v1beta2.FoundationDBBackup{}
		if err := yaml.UnmarshalStrict([]byte("podTemplateSpec: {spec: {}}"), &b.Spec); err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict([]byte(x.spec), &b.Spec.PodTemplateSpec.Spec); err != nil {
			t.Fatal(err)
		}
		got := ForbiddenInBackup(b, x.limits)
		if text := strings.ReplaceAll(paths(got), "podTemplateSpec.spec.", ""); text != x.want {
			t.Errorf("%s: %v, expected %s", x.name, got, x.want)
		}
		c := clusterOf(t, ``)
		c.Spec.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{"log": {PodTemplate: b.Spec.PodTemplateSpec}, "general": {PodTemplate: b.Spec.PodTemplateSpec}, "storage": {}}
		twice := ForbiddenInCluster(c, x.limits)
		if len(twice) != 2*len(got) {
			t.Errorf("%s: %v in a backup, %v in a cluster", x.name, got, twice)
		}
	}
	token := TemplateLimits{NoAccountToken: true}
	if got := paths(ForbiddenInCluster(clusterOf(t, ``), token)); got != "processes[general].podTemplate.spec.automountServiceAccountToken" {
		t.Errorf("a cluster without a template: %s", got)
	}
	if got := paths(ForbiddenInBackup(&v1beta2.FoundationDBBackup{}, token)); got != "podTemplateSpec.spec.automountServiceAccountToken" {
		t.Errorf("a backup without a template: %s", got)
	}
}
