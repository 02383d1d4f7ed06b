package foundationdb

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/fdb"
)

// TestMisconfigured: which changes of a spec replace a group. before and after are specs; class is storage if it is
// not given.
func TestMisconfigured(t *testing.T) {
	const security = `processes: {general: {podTemplate: {spec: {securityContext: {%s}, containers: [{name: foundationdb, securityContext: {%s}}]}}}}`
	secure := func(pod, container string) string {
		return strings.Replace(strings.Replace(security, "%s", pod, 1), "%s", container, 1)
	}
	resources := func(text string) string {
		return `replaceInstancesWhenResourcesChange: true, processes: {general: {podTemplate: {spec: {containers: [{name: foundationdb, resources: {` + text + `}}]}}}}`
	}
	const deleted = `automationOptions: {podUpdateStrategy: Delete}, `
	for _, row := range []struct {
		name, before, after string
		class               fdb.Class
		options             MisconfiguredOptions
		pod                 func(*corev1.Pod)
		why                 string // part of it; empty: the group stays
	}{
		{name: "nothing"},
		{name: "nothing, log", class: fdb.ClassLog},
		{name: "the id prefix", after: `processGroupIDPrefix: dc1`, why: `prefix "" and should have "dc1"`},
		{name: "the id prefix goes", before: `processGroupIDPrefix: dc1`, why: `prefix "dc1" and should have ""`},
		{name: "the public IP source", after: `routing: {publicIPSource: service}`, why: "public IP"},
		{name: "the public IP source, back", before: `routing: {publicIPSource: service}`, why: "public IP"},
		{name: "pod is the default", after: `routing: {publicIPSource: pod}`},
		{name: "more servers per pod", after: `storageServersPerPod: 2`, why: "has 1 servers and should have 2"},
		{name: "fewer servers per pod", before: `storageServersPerPod: 2`, why: "has 2 servers and should have 1"},
		{name: "servers of another class", after: `logServersPerPod: 2`},
		{name: "servers of the class", class: fdb.ClassTransaction, after: `logServersPerPod: 2`, why: "should have 2"},
		{name: "the IP family", after: `routing: {podIPFamily: 4}`, why: "not chosen and should be IPv4"},
		{name: "the other IP family", before: `routing: {podIPFamily: 4}`, after: `routing: {podIPFamily: 6}`, why: "IPv4 and should be IPv6"},
		{name: "no IP family", before: `routing: {podIPFamily: 4}`, why: "not chosen"},
		{name: "a pod that does not tell its IP family", after: `routing: {podIPFamily: 4}`, pod: func(p *corev1.Pod) { delete(p.Annotations, IPFamilyAnnotation) }},

		{name: "the name of the claim", after: `processes: {general: {volumeClaimTemplate: {metadata: {name: disk}}}}`, why: "sample-storage-1-disk"},
		{name: "the template of the claim", after: `processes: {general: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}`, why: "storageClassName"},
		{name: "a larger claim", after: `processes: {general: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 129Gi}}}}}}`},
		{name: "a smaller claim", after: `processes: {general: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 127Gi}}}}}}`, why: "do not shrink"},
		{name: "no claim", class: fdb.ClassStateless, after: `processes: {general: {volumeClaimTemplate: {metadata: {name: disk}, spec: {storageClassName: fast}}}}`},

		{name: "more CPU", before: resources(`requests: {cpu: 1}`), after: resources(`requests: {cpu: 1001m}`), why: "request more cpu"},
		{name: "as much CPU", before: resources(`requests: {cpu: 1}`), after: resources(`requests: {cpu: 1000m}`)},
		{name: "less CPU", before: resources(`requests: {cpu: 1}`), after: resources(`requests: {cpu: 999m}`)},
		{name: "more memory, less CPU", before: resources(`requests: {cpu: 1, memory: 1Gi}`), after: resources(`requests: {cpu: 1m, memory: 1025Mi}`), why: "request more memory"},
		{name: "more of a limit", before: resources(`requests: {cpu: 1}, limits: {cpu: 1}`), after: resources(`requests: {cpu: 1}, limits: {cpu: 2}`)},
		{name: "more CPU, which does not count", before: `processes: {general: {podTemplate: {spec: {containers: [{name: foundationdb, resources: {requests: {cpu: 1}}}]}}}}`, after: `processes: {general: {podTemplate: {spec: {containers: [{name: foundationdb, resources: {requests: {cpu: 2}}}]}}}}`},
		{name: "what admission has added does not hide it", before: resources(`requests: {cpu: 1}`), after: resources(`requests: {cpu: 2}`), why: "request more cpu", pod: func(p *corev1.Pod) {
			other := p.Spec.Containers[0].DeepCopy()
			other.Name = "mesh"
			p.Spec.Containers = append(p.Spec.Containers, *other)
		}},

		{name: "the node selector", after: `processes: {general: {podTemplate: {spec: {nodeSelector: {a: b}}}}}`, why: "node selector"},
		{name: "the node selector, back", before: `processes: {general: {podTemplate: {spec: {nodeSelector: {a: b}}}}}`, why: "node selector"},
		{name: "an empty node selector", after: `processes: {general: {podTemplate: {spec: {nodeSelector: {}}}}}`},
		{name: "a node selector that admission has set", pod: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }},
		{name: "the image type", before: `imageType: split`, why: "split and should be unified"},
		{name: "the image type, back", after: `imageType: split`, why: "unified and should be split"},
		{name: "the image type, two servers per pod", before: `imageType: split, storageServersPerPod: 2`, after: `storageServersPerPod: 2`},
		{name: "the image type, log, in place", class: fdb.ClassLog, before: `imageType: split`, after: deleted, why: "another folder"},
		{name: "the image type, log, in place, two servers per pod", class: fdb.ClassLog, before: `imageType: split, logServersPerPod: 2`, after: deleted + `logServersPerPod: 2`},
		{name: "the image type, stateless, in place", class: fdb.ClassStateless, before: `imageType: split`, after: deleted},
		{name: "a pod that does not tell its image type", pod: func(p *corev1.Pod) {
			delete(p.Annotations, ImageTypeAnnotation)
			p.Annotations[SpecAnnotation] = "older"
		}, why: "split and should be unified"},

		{name: "anything else, storage", after: `logGroup: mine`},
		{name: "anything else, log", class: fdb.ClassLog, after: `logGroup: mine`, why: "spec of its pod"},
		{name: "anything else, stateless", class: fdb.ClassStateless, after: `logGroup: mine`, why: "spec of its pod"},
		{name: "anything else, general", class: fdb.ClassGeneral, after: `logGroup: mine`},
		{name: "anything else, storage, Replace", after: `logGroup: mine, automationOptions: {podUpdateStrategy: Replace}`, why: "spec of its pod"},
		{name: "anything else, log, Delete", class: fdb.ClassLog, after: deleted + `logGroup: mine`},
		{name: "a version, storage", after: `version: 7.3.79`},
		{name: "a version, log", class: fdb.ClassLog, after: `version: 7.3.79`, why: "spec of its pod"},
		{name: "an incompatible version, log", class: fdb.ClassLog, after: `version: 7.4.6`},

		{name: "the user, by default", before: secure("runAsUser: 1", ""), after: secure("runAsUser: 2", "")},
		{name: "the user", before: secure("runAsUser: 1", ""), after: secure("runAsUser: 2", ""), options: MisconfiguredOptions{SecurityContext: true}, why: "user or group"},
		{name: "the user of the container", before: secure("", "runAsUser: 1"), after: secure("", "runAsUser: 2"), options: MisconfiguredOptions{SecurityContext: true}, why: "user or group"},
		{name: "the user stays that of the container", before: secure("runAsUser: 1", "runAsUser: 3"), after: secure("runAsUser: 2", "runAsUser: 3"), options: MisconfiguredOptions{SecurityContext: true}, why: "user or group"}, // of the sidecar
		{name: "the same user, elsewhere", before: secure("runAsUser: 1", ""), after: secure("runAsUser: 1", "runAsUser: 1"), options: MisconfiguredOptions{SecurityContext: true}},
		{name: "the group", before: secure("", ""), after: secure("", "runAsGroup: 2"), options: MisconfiguredOptions{SecurityContext: true}, why: "user or group"},
		{name: "the group of files", before: secure("fsGroup: 1", ""), after: secure("", ""), options: MisconfiguredOptions{SecurityContext: true}, why: "user or group"},
		{name: "when the group of files changes", before: secure("", ""), after: secure("fsGroupChangePolicy: Always", ""), options: MisconfiguredOptions{SecurityContext: true}, why: "user or group"},
		{name: "something else of the security context", before: secure("", ""), after: secure("runAsNonRoot: true", "privileged: false"), options: MisconfiguredOptions{SecurityContext: true}},
		{name: "a user that admission has set", before: secure("", ""), after: secure("", ""), options: MisconfiguredOptions{SecurityContext: true}, pod: func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(7)) }},
	} {
		before := clusterOf(t, `spec: {`+row.before+`}`)
		id := fdb.GroupID{Prefix: before.Spec.ProcessGroupIDPrefix, Class: fdb.ClassStorage, Number: 1}
		if row.class != "" {
			id.Class = row.class
		}
		pod, claim := podOf(t, before, id), claimOf(t, before, id)
		if claim != nil {
			claim = stored(claim)
		}
		if row.pod != nil {
			row.pod(pod)
		}
		after := row.after
		if after == "" && strings.HasPrefix(row.name, "a user that") {
			after = row.before
		}
		c := clusterOf(t, `spec: {`+after+`}`)
		for _, effective := range []bool{false, true} {
			if effective {
				c.Spec = Effective(c.Spec)
			}
			why, replace := Misconfigured(c, id, pod, claim, row.options)
			if replace != (row.why != "") || !strings.Contains(why, row.why) || !replace && why != "" {
				t.Errorf("%s (effective: %v): %v %q, expected %q", row.name, effective, replace, why, row.why)
			}
			if why, replace := Misconfigured(c, id, nil, claim, row.options); replace || why != "" {
				t.Errorf("%s: a group without pod: %q", row.name, why)
			}
		}
	}
	c := clusterOf(t, "{}")
	pod := podOf(t, c, storage1)
	if err := yaml.Unmarshal([]byte(`{general: {podTemplate: {spec: {containers: [{name: foundationdb, image: "a:b"}]}}}}`), &c.Spec.Processes); err != nil {
		t.Fatal(err)
	}
	if why, replace := Misconfigured(c, storage1, pod, nil, MisconfiguredOptions{}); replace || !strings.Contains(why, "no tag") {
		t.Errorf("a pod that cannot be built: %v %q", replace, why)
	}
}
