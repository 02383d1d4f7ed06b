package foundationdb

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// FuzzConfigMap: whatever stands in a spec, nothing panics; and where Validate has nothing to say, no value adds a
// line, a section or an argument to the files.
func FuzzConfigMap(f *testing.F) {
	f.Add("7.3.69", "group", "dc1", "hall", "$ZONE", "knob_a=1", "S.CN=a", "a:b@1.1.1.1:4501")
	f.Add("7.1.0", "a\nuser = root", "d;c", "h all", "$", "=", "\x00", "\n[general]")
	f.Add("", "", "", "", "metadata.labels['x']", "knob_a=\n[fdbserver.9]", "", "")
	f.Fuzz(func(t *testing.T, version, group, dc, hall, from, parameter, rules, connection string) {
		c := &v1beta2.FoundationDBCluster{}
		c.Name = "x"
		s := &c.Spec
		s.Version, s.LogGroup, s.DataCenter, s.DataHall, s.FaultDomain.ValueFrom, s.MainContainer.PeerVerificationRules = version, group, dc, hall, from, rules
		s.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{"general": {CustomParameters: v1beta2.CustomParameters{v1beta2.CustomParameter(parameter)}}}
		c.Status.ConnectionString, c.Status.ImageTypes = connection, []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified}
		refused := len(Validate(c)) > 0
		m, err := ConfigMap(c)
		if err != nil {
			if !refused {
				t.Fatalf("a valid cluster has no config map: %v", err)
			}
			return
		}
		var l launch
		if err := json.Unmarshal([]byte(m.Data["fdbmonitor-conf-log-json"]), &l); err != nil {
			t.Fatal(err)
		}
		if refused {
			return
		}
		arguments := len(template(c, fdb.ClassLog, v1beta2.ImageTypeUnified, 1))
		if len(l.Arguments) != arguments {
			t.Fatalf("%d arguments, expected %d", len(l.Arguments), arguments)
		}
		conf := m.Data["fdbmonitor-conf-log"]
		if connection == "" {
			if conf != "" {
				t.Fatal("servers without a connection string")
			}
			return
		}
		lines := strings.Split(conf, "\n")
		// The general section has three lines, that of the server two more than arguments; process_id is only for several.
		if want := 3 + 2 + arguments - 1; len(lines) != want || strings.Count(conf, "\n[") != 1 {
			t.Fatalf("%d lines, expected %d:\n%s", len(lines), want, conf)
		}
		commands, err := StartCommands(c, fdb.ClassLog, v1beta2.ImageTypeSplit, 1, nil)
		if err == nil && strings.Contains(commands[0], "\n") {
			t.Fatalf("a line break in %q", commands[0])
		}
	})
}

// FuzzPodState: whatever a pod tells, nothing panics, and no IP of another family is taken for its own.
func FuzzPodState(f *testing.F) {
	f.Add("unified", "4", "pod", "", `{"FDB_ZONE_ID":"z"}`, `{"arguments":[{"values":[{"type":"IPList","ipFamily":6}]}]}`, "--public-ip-family", "6", "FDB_ZONE_ID", "$(A)$$", "status.podIPs", "10.0.0.1", "a:7.3.69-1")
	f.Add("split", "", "service", "10.1.1.1", "[]", "{", "--substitute-variable", "X", "LOG_SERVERS_PER_POD", "$(", "metadata.labels['", "fd00::1", "@:")
	f.Add("", "9", "", "", "null", "", "--process-count", "-3", "", "$()", "metadata.annotations['']", "x,y", "")
	f.Fuzz(func(t *testing.T, image, family, source, ip, environment, configuration, option, value, name, text, path, podIP, repository string) {
		pod := annotated(map[string]string{
			ImageTypeAnnotation: image, IPFamilyAnnotation: family, PublicIPSourceAnnotation: source, PublicIPAnnotation: ip,
			LauncherEnvironmentAnnotation: environment, LauncherConfigurationAnnotation: configuration,
		})
		for _, container := range []string{MainContainer, SidecarContainer} {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container, Image: repository, Args: []string{option, value, option}, Env: []corev1.EnvVar{valueEnv(name, text), fieldEnv(name+"2", path)}})
		}
		pod.Status.PodIP, pod.Status.PodIPs = podIP, []corev1.PodIP{{IP: podIP}, {IP: ip}}
		for _, found := range PublicIPs(pod) {
			if n, known := IPFamilyOf(pod); known && n != 0 && familyOf(found) != n && PublicIPSourceOf(pod) == v1beta2.PublicIPPod {
				t.Fatalf("%s is not of IPv%d", found, n)
			}
		}
		c := &v1beta2.FoundationDBCluster{}
		c.Spec.Version, c.Spec.FaultDomain.ValueFrom = value, text
		if ServersIn(pod) < 1 {
			t.Fatal("a pod without servers")
		}
		Zone(c, pod)
		Variables(c, fdb.GroupID{}, pod)
		HasListenIP(pod)
		BuggifyDiffers(c.Spec, storage1, pod)
		Misconfigured(c, storage1, pod, nil, MisconfiguredOptions{SecurityContext: true})
	})
}
