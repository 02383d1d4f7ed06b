package foundationdb

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// addVolumes adds the volumes of a pod that its template does not name.
func addVolumes(c *v1beta2.FoundationDBCluster, id fdb.GroupID, spec *corev1.PodSpec) {
	image, confFile, extra := v1beta2.ImageTypeUnified, "config.json", binariesVolume
	if !unified(c.Spec) {
		image, confFile, extra = v1beta2.ImageTypeSplit, "fdbmonitor.conf", dynamicVolume
	}
	files := []corev1.KeyToPath{
		{Key: MonitorConfKey(id.Class, image, ServersPerPod(c.Spec, id.Class)), Path: confFile},
		{Key: ClusterFileKey, Path: clusterFile},
	}
	if len(c.Spec.TrustedCAs) > 0 {
		files = append(files, corev1.KeyToPath{Key: caFileKey, Path: caFile})
	}
	empty := func() corev1.VolumeSource { return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}} }
	data := empty()
	if name := ClaimName(c, id); name != "" {
		data = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	config := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMapName(c)}, Items: files,
	}}
	for _, v := range []corev1.Volume{
		{Name: dataVolume, VolumeSource: data},
		{Name: extra, VolumeSource: empty()},
		{Name: configVolume, VolumeSource: config},
		{Name: logVolume, VolumeSource: empty()},
	} {
		if !slices.ContainsFunc(spec.Volumes, func(given corev1.Volume) bool { return given.Name == v.Name }) {
			spec.Volumes = append(spec.Volumes, v)
		}
	}
}

// useClaim has a pod use another claim.
func useClaim(spec *corev1.PodSpec, name, other string) {
	for i := range spec.Volumes {
		if source := spec.Volumes[i].PersistentVolumeClaim; source != nil && source.ClaimName == name {
			source.ClaimName = other
		}
	}
}

// mount adds the mount of a volume that the template of the container does not name.
func mount(c *corev1.Container, volume, path string) {
	if !slices.ContainsFunc(c.VolumeMounts, func(given corev1.VolumeMount) bool { return given.Name == volume }) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
	}
}
