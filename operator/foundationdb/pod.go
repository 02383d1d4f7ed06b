package foundationdb

import (
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// PodFacts are what a new pod is told of other objects.
type PodFacts struct {
	// ServiceIP is the IP of the group's service. Needed where spec.routing.publicIPSource is service: the server
	// announces it.
	ServiceIP string
	// ConfigMap has the files that the pod starts with. nil: the pod does not tell which ones it has.
	ConfigMap *corev1.ConfigMap
	// ClaimName names the claim that the group has already. Empty: that of ClaimName.
	ClaimName string
}

// Pod returns a new pod for a group:
//
//	unified   foundationdb ◄── shared-binaries ── foundationdb-kubernetes-sidecar
//	split     foundationdb ◄── dynamic-conf ── foundationdb-kubernetes-sidecar, after foundationdb-kubernetes-init
//
// The template of its class is filled in: containers, variables, mounts and volumes that it names stay as they are.
// The operator's own are arguments, the tags of images, the command of fdbmonitor, the host name, and the variables
// with the id and the number of servers. Source of all texts: fdb-kubernetes-operator 2.33.0, internal/pod_models.go
// and internal/deprecations.go; the specs are the same, so that pods which it has made stay. It fails with
// SpecInvalid.
func Pod(c *v1beta2.FoundationDBCluster, id fdb.GroupID, f PodFacts) (*corev1.Pod, error) {
	spec, err := PodSpec(c, id)
	if err != nil {
		return nil, err
	}
	if f.ClaimName != "" {
		useClaim(spec, ClaimName(c, id), f.ClaimName)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: PodName(c, id), Namespace: c.Namespace, OwnerReferences: ownersOf(c)},
		Spec:       *spec,
	}
	if t := settingsOf(c.Spec, id.Class).PodTemplate; t != nil {
		pod.Finalizers = slices.Clone(t.Finalizers)
	}
	pod.Labels, pod.Annotations = Metadata(c, id)
	image := either(c.Spec.ImageType, v1beta2.ImageTypeUnified)
	pod.Annotations[SpecAnnotation] = PodHash(spec)
	pod.Annotations[ImageTypeAnnotation] = string(image)
	pod.Annotations[PublicIPSourceAnnotation] = string(publicIPSource(c.Spec))
	pod.Annotations[IPFamilyAnnotation] = strconv.Itoa(or(c.Spec.Routing.PodIPFamily, 0))
	if f.ServiceIP != "" && publicIPSource(c.Spec) == v1beta2.PublicIPService {
		pod.Annotations[PublicIPAnnotation] = f.ServiceIP
	}
	if f.ConfigMap != nil {
		pod.Annotations[ConfigAnnotation] = ConfigHash(f.ConfigMap, id.Class, image, ServersPerPod(c.Spec, id.Class))
	}
	return pod, nil
}

// PodSpec returns the spec of a new pod for a group: see Pod. It fails with SpecInvalid.
func PodSpec(c *v1beta2.FoundationDBCluster, id fdb.GroupID) (*corev1.PodSpec, error) {
	spec := &corev1.PodSpec{}
	if t := settingsOf(c.Spec, id.Class).PodTemplate; t != nil {
		t.Spec.DeepCopyInto(spec)
	}
	if containerOf(spec.Containers, MainContainer) == nil {
		spec.Containers = slices.Insert(spec.Containers, 0, corev1.Container{Name: MainContainer})
	}
	if containerOf(spec.Containers, SidecarContainer) == nil {
		spec.Containers = append(spec.Containers, corev1.Container{Name: SidecarContainer})
	}
	main, sidecar := containerOf(spec.Containers, MainContainer), containerOf(spec.Containers, SidecarContainer)
	withResources(main, "1", "8Gi")
	withResources(sidecar, "100m", "256Mi")

	b := containerBuilder{c: c, id: id, version: mainVersion(c)}
	var err error
	if main.Image, err = imageFor(c, id.Class, MainContainer, b.version); err != nil {
		return nil, err
	}
	if sidecar.Image, err = imageFor(c, id.Class, SidecarContainer, b.version); err != nil {
		return nil, err
	}
	if unified(c.Spec) {
		spec.InitContainers = slices.DeleteFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == InitContainer })
		b.unifiedMain(main)
		b.unifiedSidecar(sidecar)
	} else {
		if containerOf(spec.InitContainers, InitContainer) == nil {
			spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: InitContainer})
		}
		first := containerOf(spec.InitContainers, InitContainer)
		withResources(first, "100m", "256Mi")
		if first.Image, err = imageFor(c, id.Class, InitContainer, b.version); err != nil {
			return nil, err
		}
		b.splitMain(main)
		b.splitInit(first)
		b.splitSidecar(sidecar)
		protect(first)
	}
	protect(main)
	protect(sidecar)

	addAffinity(c, id, spec)
	addVolumes(c, id, spec)
	if WantsHeadlessService(c.Spec) || holdsNames(c) {
		spec.Hostname, spec.Subdomain = PodName(c, id), c.Name
	}
	return spec, nil
}

// PodHash is the hash of what a pod was made of: the SHA-256 of the JSON of its spec and a newline, in lower-case
// hexadecimal digits. It is that of the spec as PodSpec returns it, before the API server fills in defaults.
func PodHash(spec *corev1.PodSpec) string { return hashOf(spec) }

func containerOf(list []corev1.Container, name string) *corev1.Container {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// withResources gives a container what its template does not say. The limits are the requests.
func withResources(c *corev1.Container, cpu, memory string) {
	r := &c.Resources
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	if r.Limits == nil {
		r.Limits = r.Requests.DeepCopy()
	}
}

// protect makes the image read-only, unless the template says otherwise.
func protect(c *corev1.Container) {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	c.SecurityContext.ReadOnlyRootFilesystem = filled(c.SecurityContext.ReadOnlyRootFilesystem, true)
}

// addAffinity keeps pods of a class apart from each other, as far as there are fault domains, and lets a pod that
// buggify names fit no node.
func addAffinity(c *v1beta2.FoundationDBCluster, id fdb.GroupID, spec *corev1.PodSpec) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	a := spec.Affinity
	if key := either(c.Spec.FaultDomain.Key, hostDomain); key != noDomain && key != kubernetesClusterDomain {
		if a.PodAntiAffinity == nil {
			a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		selector := MatchLabels(c)
		selector[classLabels(c.Spec)[0]] = string(id.Class)
		preferred := &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{
			Weight:          1,
			PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: selector}},
		})
	}
	if Unschedulable(c.Spec, id) {
		if a.NodeAffinity == nil {
			a.NodeAffinity = &corev1.NodeAffinity{}
		}
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: noScheduleLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"true"}}},
		}}}
	}
	if *a == (corev1.Affinity{}) {
		spec.Affinity = nil
	}
}

// holdsNames reports whether the cluster file has DNS names. As long as it has, pods keep theirs, also when the spec
// does not ask for them any more.
func holdsNames(c *v1beta2.FoundationDBCluster) bool {
	connection, err := fdb.ParseConnection(c.Status.ConnectionString)
	return err == nil && slices.ContainsFunc(connection.Coordinators, func(a fdb.Address) bool {
		_, err := netip.ParseAddr(a.Host)
		return err != nil
	})
}

func publicIPSource(spec v1beta2.FoundationDBClusterSpec) v1beta2.PublicIPSource {
	return either(spec.Routing.PublicIPSource, v1beta2.PublicIPPod)
}
