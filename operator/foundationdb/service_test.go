package foundationdb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestHeadlessService(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true,
		`{routing: {useDNSInClusterFile: false}}`:                                false,
		`{routing: {useDNSInClusterFile: false, headlessService: true}}`:         true,
		`{routing: {useDNSInClusterFile: false, defineDNSLocalityFields: true}}`: true,
		`{routing: {headlessService: false}}`:                                    true, // names are used
	} {
		c := clusterOf(t, `spec: `+text)
		equal(t, text, [2]bool{WantsHeadlessService(c.Spec), HeadlessService(c) != nil}, [2]bool{want, want})
		c.Spec = Effective(c.Spec)
		equal(t, "effective "+text, WantsHeadlessService(c.Spec), want)
	}
	golden(t, "service-headless.yaml", asText(t, HeadlessService(clusterOf(t, `spec: {routing: {podIPFamily: 6}, labels: {matchLabels: {app: a}, resourceLabels: {team: b}}}`))))
}

func TestGroupService(t *testing.T) {
	if s := GroupService(clusterOf(t, `{}`), log2); s != nil {
		t.Errorf("nobody asks for %v", s)
	}
	c := clusterOf(t, `spec: {routing: {publicIPSource: service}, storageServersPerPod: 3, logServersPerPod: 2, labels: {processGroupIDLabels: [id, id2]}}`)
	golden(t, "service-group.yaml", asText(t, GroupService(c, log2)))
	ports := GroupService(c, storage1).Spec.Ports
	equal(t, "ports of three servers", ports, []corev1.ServicePort{
		{Name: "tls", Port: 4500}, {Name: "non-tls", Port: 4501}, {Name: "tls-2", Port: 4502}, {Name: "non-tls-2", Port: 4503}, {Name: "tls-3", Port: 4504}, {Name: "non-tls-3", Port: 4505},
	})
	c.Spec.Routing.PodIPFamily = new(6)
	equal(t, "family", GroupService(c, log2).Spec.IPFamilies, []corev1.IPFamily{corev1.IPv6Protocol})
}
