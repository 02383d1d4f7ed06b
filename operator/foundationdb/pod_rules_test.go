package foundationdb

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func mustYAML(t *rapid.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// TestPodRules: what holds for the pods, claims and services of all clusters.
func TestPodRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, id := drawCluster(t)
		before := c.DeepCopy()
		pod, err := Pod(c, id, PodFacts{ServiceIP: "10.1.1.1"})
		if err != nil {
			t.Fatal(err)
		}
		claim, err := Claim(c, id)
		if err != nil {
			t.Fatal(err)
		}
		service, headless := GroupService(c, id), HeadlessService(c)

		// The same cluster has the same children, whether its defaults are filled in or not.
		effective := c.DeepCopy()
		effective.Spec = Effective(c.Spec)
		for _, other := range []*v1beta2.FoundationDBCluster{c, effective} {
			again, err := Pod(other, id, PodFacts{ServiceIP: "10.1.1.1"})
			claimAgain, err2 := Claim(other, id)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			same(t, pod, again)
			same(t, claim, claimAgain)
			same(t, service, GroupService(other, id))
			same(t, headless, HeadlessService(other))
		}
		if diff := cmp.Diff(before, c); diff != "" {
			t.Fatalf("the cluster was changed: %s", diff)
		}

		// The hash is that of the stored spec too.
		encoded, err := json.Marshal(pod.Spec)
		if err != nil {
			t.Fatal(err)
		}
		var decoded corev1.PodSpec
		if err := json.Unmarshal(encoded, &decoded); err != nil {
			t.Fatal(err)
		}
		if PodHash(&decoded) != pod.Annotations[SpecAnnotation] {
			t.Fatal("the hash changes when the spec is stored")
		}

		// What was made is as it should be, and tells how it was made.
		if claim != nil {
			claim = stored(claim)
		}
		if why, replace := Misconfigured(c, id, pod, claim, MisconfiguredOptions{SecurityContext: true}); replace || why != "" {
			t.Fatalf("a new group is replaced: %s", why)
		}
		if why := BuggifyDiffers(c.Spec, id, pod); why != "" {
			t.Fatal(why)
		}
		labels, annotations := Metadata(c, id)
		if l, a := Lacking(pod, labels, annotations); l != nil || a != nil {
			t.Fatalf("a new pod lacks %v %v", l, a)
		}
		family, known := IPFamilyOf(pod)
		found, there := GroupIDOf(pod.Labels, c.Spec)
		class, _ := ClassOf(pod.Labels, c.Spec)
		if ServersIn(pod) != ServersPerPod(c.Spec, id.Class) || family != or(c.Spec.Routing.PodIPFamily, 0) || !known || ImageTypeOf(pod) != c.Spec.ImageType ||
			PublicIPSourceOf(pod) != publicIPSource(c.Spec) || HasListenIP(pod) != listens(c.Spec) || !there || string(found) != id.String() || class != id.Class {
			t.Fatalf("the pod does not tell how it was made: %v", pod)
		}

		// The spec is one that Kubernetes takes.
		volumes := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			if volumes[v.Name] {
				t.Fatalf("volume %s is there twice", v.Name)
			}
			volumes[v.Name] = true
		}
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			names := map[string]bool{}
			for _, v := range container.Env {
				if names[v.Name] {
					t.Fatalf("variable %s of %s is there twice", v.Name, container.Name)
				}
				names[v.Name] = true
			}
			paths := map[string]bool{}
			for _, m := range container.VolumeMounts {
				if paths[m.MountPath] || !volumes[m.Name] {
					t.Fatalf("mount %v of %s", m, container.Name)
				}
				paths[m.MountPath] = true
			}
			if container.Image == "" {
				t.Fatalf("%s has no image", container.Name)
			}
		}
	})
}

// TestTemplatesWin: what a template names stays as it is, but for what the operator must know.
func TestTemplatesWin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, id := drawCluster(t)
		names := []string{
			envPublicIP, envPodIP, envPodName, envNamespace, envNode, envInstance, envMachine, envZone, envDNSName, envClusterFile, envCAFile, envVerifyPeers, envLogGroup, envTrace,
			id.Class.ServersVariable(), envProcessCount, "MINE",
		}
		volumes := []string{dataVolume, dynamicVolume, configVolume, logVolume, binariesVolume, "mine"}
		given := &corev1.PodTemplateSpec{}
		for _, name := range []string{MainContainer, SidecarContainer, InitContainer, "other"} {
			if rapid.Bool().Draw(t, "no "+name) {
				continue
			}
			container := corev1.Container{Name: name, WorkingDir: "/mine"}
			for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 5, rapid.ID).Draw(t, "variables of "+name) {
				container.Env = append(container.Env, corev1.EnvVar{Name: v, Value: "7"})
			}
			for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom(volumes), 0, 3, rapid.ID).Draw(t, "mounts of "+name) {
				container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: v, MountPath: "/mine/" + v})
			}
			if rapid.Bool().Draw(t, "security of "+name) {
				container.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(false)}
			}
			if name == InitContainer {
				given.Spec.InitContainers = append(given.Spec.InitContainers, container)
			} else {
				given.Spec.Containers = append(given.Spec.Containers, container)
			}
		}
		for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom(volumes), 0, 4, rapid.ID).Draw(t, "volumes") {
			given.Spec.Volumes = append(given.Spec.Volumes, corev1.Volume{Name: v, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/mine"}}})
		}
		c.Spec.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{"general": {PodTemplate: given}}
		pod, err := Pod(c, id, PodFacts{})
		if err != nil {
			t.Fatal(err)
		}
		for _, lists := range [][2][]corev1.Container{{given.Spec.Containers, pod.Spec.Containers}, {given.Spec.InitContainers, pod.Spec.InitContainers}} {
			for _, container := range lists[0] {
				built := containerOf(lists[1], container.Name)
				if built == nil {
					if container.Name == InitContainer && unified(c.Spec) {
						continue
					}
					t.Fatalf("container %s is lost", container.Name)
				}
				for _, v := range container.Env {
					i := slices.IndexFunc(built.Env, func(e corev1.EnvVar) bool { return e.Name == v.Name })
					own := slices.Contains([]string{envInstance, id.Class.ServersVariable(), envProcessCount}, v.Name)
					if !own && (i < 0 || built.Env[i] != v) {
						t.Fatalf("variable %s of %s: %v", v.Name, container.Name, built.Env)
					}
				}
				for _, m := range container.VolumeMounts {
					if !slices.ContainsFunc(built.VolumeMounts, func(b corev1.VolumeMount) bool { return cmp.Equal(b, m) }) {
						t.Fatalf("mount %v of %s is lost", m, container.Name)
					}
				}
				if built.WorkingDir != "/mine" || container.SecurityContext != nil && *built.SecurityContext.ReadOnlyRootFilesystem {
					t.Fatalf("container %s was changed: %v", container.Name, built)
				}
			}
		}
		for _, v := range given.Spec.Volumes {
			if !slices.ContainsFunc(pod.Spec.Volumes, func(b corev1.Volume) bool { return cmp.Equal(b, v) }) {
				t.Fatalf("volume %s is lost", v.Name)
			}
		}
		container := mainOf(pod)
		if !unified(c.Spec) {
			container = sidecarOf(pod)
		}
		if variablesOf(container)[envInstance] != id.String() || ServersIn(pod) != ServersPerPod(c.Spec, id.Class) {
			t.Fatal("the operator does not know its own pod")
		}
	})
}

// TestWanted: what is worked out once for a class is right for each of its groups.
func TestWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, id := drawCluster(t)
		if rapid.Bool().Draw(t, "the number stands in the spec") {
			c.Spec.LogGroup = rapid.SampledFrom([]string{"4061980257113", "group-40619802571134061980257113-1", "storage-1"}).Draw(t, "log group")
		}
		w := WantedOf(c)
		for range 4 {
			spec, err := PodSpec(c, id)
			if err != nil {
				t.Fatal(err)
			}
			hash, err := w.PodHash(id)
			if want := PodHash(spec); err != nil || hash != want {
				t.Fatalf("%s: %s %v, expected %s", id, hash, err, want)
			}
			id.Number = rapid.IntRange(1, 99999).Draw(t, "another number")
			if rapid.Bool().Draw(t, "the prefix changes") {
				id.Prefix += "x"
			}
			if rapid.Bool().Draw(t, "named by buggify") {
				id = log2
			}
		}
	})
	c := &v1beta2.FoundationDBCluster{}
	c.Spec.MainContainer.ImageConfigs = []v1beta2.ImageConfig{{BaseImage: "x"}}
	w := WantedOf(c)
	for range 2 {
		if hash, err := w.PodHash(storage1); fault.Of(err) != SpecInvalid {
			t.Errorf("a pod without version: %q %v", hash, err)
		}
	}
}

func BenchmarkWanted(b *testing.B) {
	c := &v1beta2.FoundationDBCluster{}
	c.Name, c.Spec.Version = "sample", "7.3.69"
	pod, err := Pod(c, storage1, PodFacts{})
	claim, err2 := Claim(c, storage1)
	if err != nil || err2 != nil {
		b.Fatal(err, err2)
	}
	b.Run("PodHash", func(b *testing.B) {
		for b.Loop() {
			PodHash(&pod.Spec)
		}
	})
	b.Run("PodSpec", func(b *testing.B) {
		for b.Loop() {
			if _, err := PodSpec(c, storage1); err != nil {
				b.Fatal(err)
			}
		}
	})
	w := WantedOf(c)
	b.Run("Misconfigured", func(b *testing.B) {
		for b.Loop() {
			if why, replace := w.Misconfigured(storage1, pod, claim, MisconfiguredOptions{}); replace {
				b.Fatal(why)
			}
		}
	})
	b.Run("Variables", func(b *testing.B) {
		for b.Loop() {
			Variables(c, storage1, pod)
		}
	})
	b.Run("Metadata", func(b *testing.B) {
		for b.Loop() {
			labels, annotations := PodMetadata(c, storage1, pod)
			Lacking(pod, labels, annotations)
		}
	})
}
