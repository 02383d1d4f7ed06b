package kube

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/pooler"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

const (
	poolerComponent = "pooler"
	poolerContainer = "pooler"
	supervisorPort  = 7296

	// DefaultPoolerImage has pgbouncer in its PATH.
	DefaultPoolerImage = "ghcr.io/cloudnative-pg/pgbouncer:1.24.1"
)

func poolerName(c port.Ref) string { return c.Name + "-pooler" }

func poolerService(c port.Ref) string { return poolerName(c) + "-rw" }

// poolers runs poolers as the pods of a Deployment behind a Service.
type poolers struct{ placement *Placement }

var _ pooler.Hosts = poolers{}

// Pooler returns the port of this name.
func (s *Placement) Pooler() pooler.Port {
	return pooler.Port{Hosts: poolers{s}, Locator: s.Instances(), Clients: s.clients}
}

// Ensure implements pooler.Hosts.
func (p poolers) Ensure(ctx context.Context, c port.Ref, want port.PoolerSpec) error {
	deployment, err := p.deployment(c, want)
	if err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: meta(c, poolerService(c), poolerComponent), Spec: corev1.ServiceSpec{
		Selector: map[string]string{ClusterLabel: c.Name, ComponentLabel: poolerComponent},
		Ports:    []corev1.ServicePort{{Name: "engine", Port: enginePort, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("engine")}},
	}}
	if want.Instances == 0 {
		if err := p.placement.remove(ctx, service); err != nil {
			return err
		}
		return client.IgnoreNotFound(p.placement.o.Client.Delete(ctx, deployment, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	if _, err := p.placement.restoreObject(ctx, c, service); err != nil {
		return err
	}
	return p.placement.apply(ctx, c, deployment)
}

func (p poolers) deployment(c port.Ref, want port.PoolerSpec) (*appsv1.Deployment, error) {
	config, err := json.Marshal(pooler.Config{
		Cluster: c.Cluster(), Name: "$(POD_NAME)", Listen: "$(POD_IP):" + itoa(supervisorPort), Host: "$(POD_IP)", Port: enginePort,
		TokenFile: path.Join(secretPath, tokenKey), PasswordFile: path.Join(secretPath, passwordKey), TLSDir: tlsPath,
	})
	if err != nil {
		return nil, err
	}
	image := want.Image
	if image == "" {
		image = p.placement.o.PoolerImage
	}
	d := &appsv1.Deployment{ObjectMeta: meta(c, poolerName(c), poolerComponent)}
	tools := corev1.VolumeMount{Name: "tools", MountPath: toolPath}
	labels := map[string]string{ClusterLabel: c.Name, ComponentLabel: poolerComponent}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: d.Labels, Annotations: map[string]string{
		"prometheus.io/scrape": "true", "prometheus.io/port": itoa(supervisorPort), "prometheus.io/path": "/metrics",
	}}, Spec: corev1.PodSpec{
		ServiceAccountName: instanceAccount(c), AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false),
		SecurityContext: podSecurity(p.placement.o.User), TerminationGracePeriodSeconds: ptr(int64(5)),
		InitContainers: []corev1.Container{{
			Name: "tools", Image: p.placement.o.Image, Args: []string{"instance", "--copy-to", path.Join(toolPath, "pawl")},
			VolumeMounts: []corev1.VolumeMount{tools}, SecurityContext: containerSecurity(), Resources: helperResources(),
		}},
		Containers: []corev1.Container{{
			Name: poolerContainer, Image: image, Command: []string{path.Join(toolPath, "pawl"), "pooler", "--kubernetes", "--dir", scratchPath},
			Env: []corev1.EnvVar{
				address(), {Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: pooler.Variable, Value: string(config)},
			},
			Ports: []corev1.ContainerPort{
				{Name: "engine", ContainerPort: enginePort, Protocol: corev1.ProtocolTCP}, {Name: "http", ContainerPort: supervisorPort, Protocol: corev1.ProtocolTCP},
			},
			VolumeMounts:    []corev1.VolumeMount{{Name: "secret", MountPath: secretPath, ReadOnly: true}, tlsMount(), tools, {Name: "scratch", MountPath: scratchPath}},
			SecurityContext: containerSecurity(),
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: get("/readyz", supervisorPort), PeriodSeconds: 2, TimeoutSeconds: 3},
			LivenessProbe:  &corev1.Probe{ProbeHandler: get("/healthz", supervisorPort), PeriodSeconds: 5, FailureThreshold: 3, TimeoutSeconds: 3},
		}},
		Volumes: []corev1.Volume{secretVolume(c), tlsVolume(c, port.PoolerIdentity(c), port.PoolerCertificateFile, port.PoolerKeyFile, postgres.TrustFile), emptyDir("tools"), emptyDir("scratch")},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: hostnameLabel, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}},
	}}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: ptr(int32(want.Instances)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template, RevisionHistoryLimit: ptr(int32(1)), //nolint:gosec // at most 10
	}
	return d, nil
}

// List implements pooler.Hosts.
func (p poolers) List(ctx context.Context, c port.Ref) ([]pooler.Endpoint, error) {
	var list corev1.PodList
	if err := p.placement.o.Client.List(ctx, &list, of(c, poolerComponent)...); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	known, err := p.placement.secretsOf(ctx, c, false)
	if err != nil {
		return nil, err
	}
	trust, err := p.placement.authoritiesOf(ctx, c)
	if err != nil {
		return nil, err
	}
	var found []pooler.Endpoint
	for _, pod := range list.Items {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		at := pooler.Endpoint{Name: pod.Name, Node: pod.Spec.NodeName, Token: known.token, Trust: trust}
		if pod.Status.PodIP != "" {
			at.URL = "http://" + join(pod.Status.PodIP, supervisorPort)
		}
		found = append(found, at)
	}
	slices.SortFunc(found, func(a, b pooler.Endpoint) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
