package kube

import (
	"encoding/json"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

const (
	engineContainer = "engine"
	grace           = 25 // seconds for an engine to stop

	// InstanceVariable holds the postgres.Config of an instance as JSON, and
	// ManagerVariable the postgres.WatchConfig of a cluster manager.
	InstanceVariable = "PAWL_INSTANCE_CONFIG"
	ManagerVariable  = "PAWL_MANAGER_CONFIG"
)

// claim returns a new claim of a cluster. No object owns it: see the package documentation.
func (s *Placement) claim(c port.Ref, name, component string, size int64) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta(c, name, component), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}},
	}}
	claim.Annotations = map[string]string{ownerAnnotation: c.UID}
	if s.o.StorageClass != "" {
		claim.Spec.StorageClassName = &s.o.StorageClass
	}
	return claim
}

// podSecurity runs a pod as a user that is not root.
func podSecurity(user int64) *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr(true), RunAsUser: &user, RunAsGroup: &user, FSGroup: &user, FSGroupChangePolicy: ptr(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func address() corev1.EnvVar {
	return corev1.EnvVar{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}
}

func nodeName() corev1.EnvVar {
	return corev1.EnvVar{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}
}

func get(path string, number int32) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(number)}}
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func secretVolume(c port.Ref) corev1.Volume {
	return corev1.Volume{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secretName(c), DefaultMode: ptr(int32(0o440))}}}
}

// queriesVolume has the user's queries for metrics, if there is such a ConfigMap.
func queriesVolume(c port.Ref) corev1.Volume {
	return corev1.Volume{Name: "metrics", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: c.Name + "-metrics"}, Optional: ptr(true),
	}}}
}

// pod returns the pod of an instance. Its init container copies pawl into the image of the engine.
func (s *Placement) pod(c port.Ref, want port.Instance, claim string) (*corev1.Pod, error) {
	config, err := json.Marshal(postgres.Config{
		Cluster: c.Of(want.Name), Listen: "$(POD_IP):" + itoa(agentPort), Host: "$(POD_IP)", Port: want.Port, Version: want.Version,
		TLSDir: tlsPath, TokenFile: path.Join(secretPath, tokenKey), PasswordFile: path.Join(secretPath, passwordKey),
		Lease: host.Duration(s.o.Lease), Grace: host.Duration(grace * second), Parameters: want.Class.Parameters,
		Node: "$(NODE)", Failsafe: host.Duration(s.o.Failsafe), QueriesFile: path.Join(metricsPath, queriesKey),
		HugePages: sharedstorage.PodSettingsOf(want.Pod).HugePages > 0,
	})
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{ObjectMeta: meta(c, PodName(c.Of(want.Name)), instanceComponent)}
	label(pod, map[string]string{InstanceLabel: want.Name, IDLabel: want.ID, TypeLabel: string(want.Type)})
	if want.Type != port.Temporary {
		pod.Labels[RoleLabel] = string(want.Type)
	}
	made, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	pod.Annotations = map[string]string{wantAnnotation: string(made), "prometheus.io/scrape": "true", "prometheus.io/port": itoa(agentPort), "prometheus.io/path": "/metrics"}
	user := s.o.User
	tools := corev1.VolumeMount{Name: "tools", MountPath: toolPath}
	pod.Spec = corev1.PodSpec{
		ServiceAccountName: instanceAccount(c), EnableServiceLinks: ptr(false), TerminationGracePeriodSeconds: ptr(int64(grace + 15)),
		SecurityContext: podSecurity(user), NodeSelector: want.NodeSelector, Hostname: "",
		InitContainers: []corev1.Container{{
			Name: "tools", Image: s.o.Image, Args: []string{"instance", "--copy-to", path.Join(toolPath, "pawl")},
			VolumeMounts: []corev1.VolumeMount{tools}, SecurityContext: containerSecurity(), Resources: helperResources(),
		}},
		Containers: []corev1.Container{{
			Name: engineContainer, Image: want.Image, Command: []string{path.Join(toolPath, "pawl"), "instance", "--kubernetes", "--dir", dataPath},
			Env:   []corev1.EnvVar{address(), nodeName(), {Name: "TMPDIR", Value: scratchPath}, {Name: InstanceVariable, Value: string(config)}},
			Ports: []corev1.ContainerPort{{Name: "engine", ContainerPort: want.Port}, {Name: "agent", ContainerPort: agentPort}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "data", MountPath: dataPath}, {Name: "secret", MountPath: secretPath, ReadOnly: true}, tools,
				{Name: "scratch", MountPath: scratchPath}, {Name: "shared-memory", MountPath: "/dev/shm"},
				{Name: "metrics", MountPath: metricsPath, ReadOnly: true}, tlsMount(),
			},
			Resources: resources(want), SecurityContext: containerSecurity(),
			StartupProbe:             &corev1.Probe{ProbeHandler: get("/healthz", agentPort), PeriodSeconds: 1, FailureThreshold: 120, TimeoutSeconds: 5},
			ReadinessProbe:           &corev1.Probe{ProbeHandler: get("/readyz", agentPort), PeriodSeconds: 2, FailureThreshold: 2, TimeoutSeconds: 5},
			LivenessProbe:            &corev1.Probe{ProbeHandler: get("/healthz", agentPort), PeriodSeconds: 10, FailureThreshold: 6, TimeoutSeconds: 10},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}},
			secretVolume(c), emptyDir("tools"), emptyDir("scratch"), queriesVolume(c), tlsVolume(c, port.InstanceIdentity(c.Of(want.Name)), postgres.CertificateFile, postgres.KeyFile, postgres.TrustFile),
			{Name: "shared-memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		},
	}
	applySettings(pod, sharedstorage.PodSettingsOf(want.Pod))
	if want.Node != "" {
		bindTo(pod, want.Node)
	}
	return pod, nil
}

// helperResources returns the resources of a container that copies and ends. A quota admits no pod that
// has a container without resources.
func helperResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

// resources returns the resources of an engine. Memory is also a limit, because the engine is
// configured for it; CPU is not, so that the engine may use free cores.
func resources(want port.Instance) corev1.ResourceRequirements {
	class := want.Class
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if class.CPU > 0 {
		r.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(class.CPU, resource.DecimalSI)
	}
	if class.Memory > 0 {
		q := *resource.NewQuantity(class.Memory, resource.BinarySI)
		r.Requests[corev1.ResourceMemory], r.Limits[corev1.ResourceMemory] = q, q
	}
	if huge := sharedstorage.PodSettingsOf(want.Pod).HugePages; huge > 0 {
		q := *resource.NewQuantity(huge, resource.BinarySI)
		r.Requests[hugePages], r.Limits[hugePages] = q, q
	}
	return r
}
