package backups

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Names of the agents' deployment. Source of all that stands in this file: fdb-kubernetes-operator 2.33.0,
// internal/pod_models.go, GetBackupDeployment and configureSidecarContainer, and api/v1beta2/foundationdb_labels.go.
const (
	BackupLabel    = "foundationdb.org/backup-for"        // on the deployment: the UID of the backup
	PodLabel       = "foundationdb.org/deployment-name"   // on its pods: the name of the deployment
	SpecAnnotation = "foundationdb.org/last-applied-spec" // on the deployment: the hash of its spec, as it was built

	mainContainer = "foundationdb"
	initContainer = "foundationdb-kubernetes-init"
)

const (
	logFolder    = "/var/log/fdb-trace-logs"
	configFolder = "/var/dynamic-conf"
)

// The images where a backup names none.
var (
	unifiedImages = []v1beta2.ImageConfig{{BaseImage: "foundationdb/fdb-kubernetes-monitor"}}
	mainImages    = []v1beta2.ImageConfig{{BaseImage: "foundationdb/foundationdb"}}
	sidecarImages = []v1beta2.ImageConfig{{BaseImage: "foundationdb/foundationdb-kubernetes-sidecar", TagSuffix: "-1"}}
)

// AgentsName is the name of the deployment of the agents.
func AgentsName(b *v1beta2.FoundationDBBackup) string { return b.Name + "-backup-agents" }

// Agents builds the deployment of the agents of a backup; nil if there are to be none. The cluster gives the cluster
// file, and, where it has them, trusted certificates and the rules for peers; nil: only the cluster file. It fails
// with foundationdb.SpecInvalid.
func Agents(b *v1beta2.FoundationDBBackup, c *v1beta2.FoundationDBCluster) (*appsv1.Deployment, error) {
	count := int32(2)
	if b.Spec.AgentCount != nil {
		count = int32(min(*b.Spec.AgentCount, 1<<31-1)) //nolint:gosec // it is bounded above, and validated below
	}
	if count <= 0 {
		return nil, nil
	}
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = b.Namespace, AgentsName(b)
	d.Labels, d.Annotations = map[string]string{}, map[string]string{}
	d.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1beta2.GroupVersion.String(), Kind: "FoundationDBBackup", Name: b.Name, UID: b.UID, Controller: new(true),
	}}
	if m := b.Spec.BackupDeploymentMetadata; m != nil {
		maps.Copy(d.Labels, m.Labels)
		maps.Copy(d.Annotations, m.Annotations)
	}
	d.Labels[BackupLabel] = string(b.UID)

	template := corev1.PodTemplateSpec{}
	if b.Spec.PodTemplateSpec != nil {
		template = *b.Spec.PodTemplateSpec.DeepCopy()
	}
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[PodLabel] = d.Name
	t := tls(c)
	if err := fillAgent(b, t, &template.Spec); err != nil {
		return nil, err
	}
	if err := fillInit(b, t, &template.Spec); err != nil {
		return nil, err
	}
	fillVolumes(b, t, &template.Spec)
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &count, Template: template,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{PodLabel: d.Name}},
	}
	d.Annotations[SpecAnnotation] = specHash(d.Spec)
	return d, nil
}

// clusterTLS is what a cluster says about TLS besides the certificates, which stand in templates.
type clusterTLS struct {
	trustedCAs  bool
	verifyPeers string
}

func tls(c *v1beta2.FoundationDBCluster) clusterTLS {
	if c == nil {
		return clusterTLS{}
	}
	return clusterTLS{len(c.Spec.TrustedCAs) > 0, c.Spec.MainContainer.PeerVerificationRules}
}

// fillAgent fills the container of the agent: first in the list, unless the template has it.
func fillAgent(b *v1beta2.FoundationDBBackup, t clusterTLS, spec *corev1.PodSpec) error {
	at := slices.IndexFunc(spec.Containers, named(mainContainer))
	if at < 0 {
		at = 0
		spec.Containers = append([]corev1.Container{{Name: mainContainer}}, spec.Containers...)
	}
	c := &spec.Containers[at]
	configs := mainImages
	if unified(b) {
		configs = unifiedImages
	}
	if given := b.Spec.MainContainer.ImageConfigs; len(given) > 0 {
		configs = given
	}
	var err error
	if c.Image, err = image(b, "spec.podTemplateSpec.spec.containers["+mainContainer+"].image", c.Image, configs); err != nil {
		return err
	}
	c.Command = []string{"backup_agent"}
	c.Args = agentArguments(b)
	c.Env = withEnv(c.Env,
		corev1.EnvVar{Name: "FDB_CLUSTER_FILE", Value: configFolder + "/fdb.cluster"},
		corev1.EnvVar{Name: "FDB_ZONE_ID", Value: b.Name},
		corev1.EnvVar{Name: "FDB_MACHINE_ID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	)
	if t.trustedCAs {
		c.Env = withEnv(c.Env, corev1.EnvVar{Name: "FDB_TLS_CA_FILE", Value: configFolder + "/ca.pem"})
	}
	if t.verifyPeers != "" {
		c.Env = withEnv(c.Env, corev1.EnvVar{Name: "FDB_TLS_VERIFY_PEERS", Value: t.verifyPeers})
	}
	c.VolumeMounts = withMounts(c.VolumeMounts,
		corev1.VolumeMount{Name: "logs", MountPath: logFolder},
		corev1.VolumeMount{Name: "dynamic-conf", MountPath: configFolder},
	)
	if c.Resources.Requests == nil {
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	}
	if c.Resources.Limits == nil {
		c.Resources.Limits = c.Resources.Requests
	}
	return nil
}

// agentArguments have the localities by which the agents are near to each other. A custom parameter of the same name
// wins.
func agentArguments(b *v1beta2.FoundationDBBackup) []string {
	arguments := []string{"--log", "--logdir", logFolder}
	var custom []string
	given := map[string]bool{}
	for _, p := range b.Spec.CustomParameters {
		name, value, hasValue := strings.Cut(string(p), "=")
		name = strings.TrimSpace(name)
		given[strings.ReplaceAll(name, "-", "_")] = true
		argument := "--" + name
		if hasValue {
			argument += "=" + strings.TrimSpace(value)
		}
		custom = append(custom, argument)
	}
	locality := func(name, value string) {
		if value != "" && !given["locality_"+name] {
			arguments = append(arguments, "--locality_"+name+"="+value)
		}
	}
	locality("zoneid", "$(FDB_ZONE_ID)")
	locality("machineid", "$(FDB_MACHINE_ID)")
	locality("dcid", b.Spec.DataCenter)
	return append(arguments, custom...)
}

// fillInit fills the init container that copies the files of the cluster: last in the list, unless the template has it.
func fillInit(b *v1beta2.FoundationDBBackup, t clusterTLS, spec *corev1.PodSpec) error {
	at := slices.IndexFunc(spec.InitContainers, named(initContainer))
	if at < 0 {
		at = len(spec.InitContainers)
		spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: initContainer})
	}
	c := &spec.InitContainers[at]
	configs, given := sidecarImages, b.Spec.SidecarContainer.ImageConfigs
	if unified(b) {
		configs, given = unifiedImages, b.Spec.MainContainer.ImageConfigs
	}
	if len(given) > 0 {
		configs = given
	}
	var err error
	if c.Image, err = image(b, "spec.podTemplateSpec.spec.initContainers["+initContainer+"].image", c.Image, configs); err != nil {
		return err
	}
	c.Args = []string{"--copy-file", "fdb.cluster"}
	if t.trustedCAs {
		c.Args = append(c.Args, "--copy-file", "ca.pem")
	}
	c.Args = append(c.Args, "--require-not-empty", "fdb.cluster")
	if unified(b) {
		c.Args = append(c.Args, "--mode", "init", "--output-dir", "/var/output-files", "--input-dir", "/var/input-files")
	} else {
		c.Args = append(c.Args, "--init-mode")
	}
	c.VolumeMounts = withMounts(c.VolumeMounts,
		corev1.VolumeMount{Name: "config-map", MountPath: "/var/input-files"},
		corev1.VolumeMount{Name: "dynamic-conf", MountPath: "/var/output-files"},
	)
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	if c.SecurityContext.ReadOnlyRootFilesystem == nil {
		c.SecurityContext.ReadOnlyRootFilesystem = new(true)
	}
	return nil
}

func fillVolumes(b *v1beta2.FoundationDBBackup, t clusterTLS, spec *corev1.PodSpec) {
	files := []corev1.KeyToPath{{Key: "cluster-file", Path: "fdb.cluster"}}
	if t.trustedCAs {
		files = append(files, corev1.KeyToPath{Key: "ca-file", Path: "ca.pem"})
	}
	for _, v := range []corev1.Volume{
		{Name: "logs", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "dynamic-conf", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "config-map", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: b.Spec.ClusterName + "-config"}, Items: files,
		}}},
	} {
		if !slices.ContainsFunc(spec.Volumes, func(has corev1.Volume) bool { return has.Name == v.Name }) {
			spec.Volumes = append(spec.Volumes, v)
		}
	}
}

// image is the image of a container. That of the template is a repository, or a whole image if allowTagOverride is set.
func image(b *v1beta2.FoundationDBBackup, path, given string, configs []v1beta2.ImageConfig) (string, error) {
	if given != "" {
		_, name, _ := cutLast(given, "/")
		if strings.ContainsAny(name, ":@") {
			if b.Spec.AllowTagOverride != nil && *b.Spec.AllowTagOverride {
				return given, nil
			}
			return "", foundationdb.SpecInvalid.Errorf("%s: %q has a tag, which follows from the version: name the repository alone, or set allowTagOverride", path, given)
		}
		configs = append([]v1beta2.ImageConfig{{BaseImage: given}}, configs...)
	}
	return foundationdb.ImageOf(configs, b.Spec.Version)
}

// cutLast cuts around the last separator; without one all is after it.
func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return "", text, false
	}
	return text[:at], text[at+len(separator):], true
}

func unified(b *v1beta2.FoundationDBBackup) bool {
	return b.Spec.ImageType == v1beta2.ImageTypeUnified
}

func named(name string) func(corev1.Container) bool {
	return func(c corev1.Container) bool { return c.Name == name }
}

// withEnv adds the variables that are not there.
func withEnv(env []corev1.EnvVar, more ...corev1.EnvVar) []corev1.EnvVar {
	for _, e := range more {
		if !hasEnv(env, e.Name) {
			env = append(env, e)
		}
	}
	return env
}

func withMounts(mounts []corev1.VolumeMount, more ...corev1.VolumeMount) []corev1.VolumeMount {
	for _, m := range more {
		if !slices.ContainsFunc(mounts, func(has corev1.VolumeMount) bool { return has.Name == m.Name }) {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// specHash is the SHA-256 of the JSON of a spec and a newline.
func specHash(spec appsv1.DeploymentSpec) string {
	encoded, err := json.Marshal(spec)
	if err != nil {
		panic(err) // a type of Kubernetes
	}
	sum := sha256.Sum256(append(encoded, '\n'))
	return hex.EncodeToString(sum[:])
}
