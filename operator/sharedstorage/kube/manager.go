package kube

import (
	"context"
	"encoding/json"
	"maps"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

const (
	managerUser    = 65532 // nonroot of distroless images
	awayAnnotation = "pawl.dev/away-from"
	managerVersion = "pawl.dev/version"

	templateAnnotation = "pawl.dev/template"

	watchContainer  = "cluster-manager"
	hostnameLabel   = "kubernetes.io/hostname"
	managerReplicas = 1
)

// Managers runs cluster managers as Deployments.
type Managers struct{ placement *Placement }

var _ postgres.ManagerHosts = &Managers{}

// Ensure implements postgres.ManagerHosts.
func (m *Managers) Ensure(ctx context.Context, c port.Ref, want port.ManagerSpec) (postgres.ManagerEndpoint, error) {
	if err := m.placement.rbacRules(ctx, c); err != nil {
		return postgres.ManagerEndpoint{}, err
	}
	memory := &corev1.ConfigMap{ObjectMeta: meta(c, managerName(c), managerComponent)}
	if _, err := m.placement.createObject(ctx, c, memory); err != nil {
		return postgres.ManagerEndpoint{}, err
	}
	away, err := m.away(ctx, c, want.AwayFrom)
	if err != nil {
		return postgres.ManagerEndpoint{}, err
	}
	deployment, err := m.deployment(c, want, away)
	if err != nil {
		return postgres.ManagerEndpoint{}, err
	}
	if err := m.placement.apply(ctx, c, deployment); err != nil {
		return postgres.ManagerEndpoint{}, err
	}
	return m.endpoint(ctx, c, deployment)
}

// away returns the node that the manager should avoid: the node of the writer if the manager runs
// there, otherwise the one that it avoids already, so that it moves only for a reason.
func (m *Managers) away(ctx context.Context, c port.Ref, wanted string) (string, error) {
	old := &appsv1.Deployment{}
	err := m.placement.o.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: managerName(c)}, old)
	if apierrors.IsNotFound(err) {
		return wanted, nil
	}
	if err != nil {
		return "", err
	}
	pod, err := m.pod(ctx, c)
	if err != nil || pod != nil && pod.Spec.NodeName == wanted {
		return wanted, err
	}
	return old.Annotations[awayAnnotation], nil
}

func (m *Managers) deployment(c port.Ref, want port.ManagerSpec, away string) (*appsv1.Deployment, error) {
	config, err := json.Marshal(postgres.WatchConfig{
		Cluster: c.Cluster(), Listen: "$(POD_IP):" + itoa(managerPort), Node: "$(NODE)", Version: want.Version,
		TokenFile: path.Join(secretPath, tokenKey), TLSDir: tlsPath, Every: host.Duration(m.placement.o.Every), Misses: max(1, int(m.placement.o.FailoverAfter/m.placement.o.Every)),
	})
	if err != nil {
		return nil, err
	}
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{}, ObjectMeta: meta(c, managerName(c), managerComponent)}
	d.Annotations = map[string]string{awayAnnotation: away, managerVersion: want.Version, templateAnnotation: want.Template}
	labels := map[string]string{ClusterLabel: c.Name, ComponentLabel: managerComponent}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(d.Labels)}, Spec: corev1.PodSpec{
		ServiceAccountName: managerAccount(c), EnableServiceLinks: ptr(false), SecurityContext: podSecurity(managerUser), TerminationGracePeriodSeconds: ptr(int64(5)),
		Containers: []corev1.Container{{
			Name: watchContainer, Image: m.placement.o.Image, Args: []string{"cluster-manager", "--kubernetes"},
			Env:             []corev1.EnvVar{address(), nodeName(), {Name: ManagerVariable, Value: string(config)}},
			Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: managerPort, Protocol: corev1.ProtocolTCP}},
			VolumeMounts:    []corev1.VolumeMount{{Name: "secret", MountPath: secretPath, ReadOnly: true}, tlsMount()},
			SecurityContext: containerSecurity(),
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("48Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: get("/healthz", managerPort), PeriodSeconds: 1, TimeoutSeconds: 2},
			// On a busy node the start takes longer than the liveness probe allows: without this one the manager is killed again and again.
			StartupProbe: &corev1.Probe{ProbeHandler: get("/healthz", managerPort), PeriodSeconds: 1, FailureThreshold: 120, TimeoutSeconds: 5},
			// A frozen manager does no failover: it is killed and started again within ten seconds. Its state is in its ConfigMap.
			LivenessProbe: &corev1.Probe{ProbeHandler: get("/healthz", managerPort), PeriodSeconds: 1, FailureThreshold: 2, TimeoutSeconds: 2, TerminationGracePeriodSeconds: ptr(int64(1))},
		}},
		Volumes: []corev1.Volume{secretVolume(c), tlsVolume(c, port.ManagerIdentity(c))},
		// The manager must not stay on a node that is gone, because it does the failover.
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(10))},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(10))},
		},
	}}
	if away != "" {
		template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight:     100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostnameLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{away}}}},
		}}}}
	}
	applyToManager(&template, sharedstorage.PodSettingsOf(want.Pod))
	d.Spec = appsv1.DeploymentSpec{
		Replicas: ptr(int32(managerReplicas)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template, RevisionHistoryLimit: ptr(int32(1)),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, // never two
	}
	return d, nil
}

// pod returns the running pod of the manager, or nil.
func (m *Managers) pod(ctx context.Context, c port.Ref) (*corev1.Pod, error) {
	var list corev1.PodList
	if err := m.placement.o.Client.List(ctx, &list, of(c, managerComponent)...); err != nil {
		return nil, err
	}
	var best *corev1.Pod
	for n := range list.Items {
		pod := &list.Items[n]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if best == nil || best.CreationTimestamp.Before(&pod.CreationTimestamp) {
			best = pod
		}
	}
	return best, nil
}

// Find implements postgres.ManagerHosts.
func (m *Managers) Find(ctx context.Context, c port.Ref) (postgres.ManagerEndpoint, bool, error) {
	d := &appsv1.Deployment{}
	err := m.placement.o.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: managerName(c)}, d)
	if apierrors.IsNotFound(err) || err == nil && d.DeletionTimestamp != nil {
		return postgres.ManagerEndpoint{}, false, nil
	}
	if err != nil {
		return postgres.ManagerEndpoint{}, false, err
	}
	place, err := m.endpoint(ctx, c, d)
	return place, true, err
}

func (m *Managers) endpoint(ctx context.Context, c port.Ref, d *appsv1.Deployment) (postgres.ManagerEndpoint, error) {
	known, err := m.placement.secretsOf(ctx, c, false)
	if err != nil {
		return postgres.ManagerEndpoint{}, err
	}
	trust, err := m.placement.authoritiesOf(ctx, c)
	if err != nil {
		return postgres.ManagerEndpoint{}, err
	}
	place := postgres.ManagerEndpoint{Trust: trust, URL: "http://" + managerName(c) + ".invalid", Token: known.token, Former: known.former, Version: d.Annotations[managerVersion], Template: d.Annotations[templateAnnotation]}
	pod, err := m.pod(ctx, c)
	if err != nil || pod == nil {
		return place, err
	}
	if place.Node = pod.Spec.NodeName; pod.Status.PodIP != "" {
		place.Address = join(pod.Status.PodIP, managerPort)
		place.URL = "http://" + place.Address
	}
	return place, nil
}

// Remove implements postgres.ManagerHosts.
func (m *Managers) Remove(ctx context.Context, c port.Ref) error {
	err := client.IgnoreNotFound(m.placement.o.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: meta(c, managerName(c), "")}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	if err != nil {
		return err
	}
	// From here on nothing fails over, because the pod is deleted, too.
	err = m.placement.o.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(c.Namespace),
		client.MatchingLabels{ClusterLabel: c.Name, ComponentLabel: managerComponent}, client.GracePeriodSeconds(0))
	if err := client.IgnoreNotFound(err); err != nil {
		return err
	}
	return m.placement.remove(ctx, &corev1.ConfigMap{ObjectMeta: meta(c, managerName(c), "")})
}
