package foundationdb

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// ConfigMap returns the files that the pods of a cluster read: the cluster file, the running version, the trusted
// certificates, and a file for each class in use. While pods of two image types, or with two numbers of servers,
// exist side by side, there are files for both. What spec.configMap says besides is kept.
func ConfigMap(c *v1beta2.FoundationDBCluster) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}, Data: map[string]string{}}
	if given := c.Spec.ConfigMap; given != nil {
		maps.Copy(m.Labels, given.Labels)
		m.Annotations = maps.Clone(given.Annotations)
		maps.Copy(m.Data, given.Data)
		m.BinaryData = maps.Clone(given.BinaryData)
	}
	m.Name, m.Namespace = configMapName(c), c.Namespace
	maps.Copy(m.Labels, ChildLabels(c))
	m.OwnerReferences = ownersOf(c)

	m.Data[ClusterFileKey] = c.Status.ConnectionString
	m.Data[RunningVersionKey] = either(c.Status.RunningVersion, c.Spec.Version)
	if len(c.Spec.TrustedCAs) > 0 {
		m.Data[caFileKey] = strings.Join(c.Spec.TrustedCAs, "\n")
	}
	for _, class := range classesOf(c) {
		for _, image := range imageTypesOf(c) {
			for _, servers := range densitiesOf(c, class, image) {
				conf, err := MonitorConf(c, class, image, servers)
				if err != nil {
					return nil, err
				}
				m.Data[MonitorConfKey(class, image, servers)] = conf
			}
		}
	}
	return m, nil
}

// ConfigHash is the hash of the files that a pod reads, in lower-case hexadecimal digits: an annotation of the pod
// tells which ones it has. The launcher of the unified image does not read the cluster file again, so there it does
// not count.
func ConfigHash(m *corev1.ConfigMap, class fdb.Class, image v1beta2.ImageType, servers int) string {
	keys := []string{MonitorConfKey(class, image, servers), RunningVersionKey, caFileKey, sidecarConfKey}
	if image != v1beta2.ImageTypeUnified {
		keys = append(keys, ClusterFileKey)
	}
	files := map[string]string{}
	for _, key := range keys {
		if text, ok := m.Data[key]; ok {
			files[key] = text
		}
	}
	return hashOf(files)
}

// hashOf is the SHA-256 of the JSON of a value and a newline, in lower-case hexadecimal digits.
func hashOf(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // of Kubernetes' types and texts only
	}
	sum := sha256.Sum256(append(encoded, '\n'))
	return hex.EncodeToString(sum[:])
}

func configMapName(c *v1beta2.FoundationDBCluster) string { return c.Name + "-config" }

// MonitorConfKey is the key of the file of a class.
func MonitorConfKey(class fdb.Class, image v1beta2.ImageType, servers int) string {
	key := "fdbmonitor-conf-" + string(class)
	switch {
	case image == v1beta2.ImageTypeUnified:
		key += "-json"
	case servers > 1:
		key += "-density-" + strconv.Itoa(servers)
	}
	return key
}

// classesOf returns the classes that groups have or should have, in order.
func classesOf(c *v1beta2.FoundationDBCluster) []fdb.Class {
	used := map[fdb.Class]bool{}
	for class, n := range Groups(c.Spec) {
		if n > 0 {
			used[class] = true
		}
	}
	for _, g := range c.Status.ProcessGroups {
		used[fdb.Class(g.ProcessClass)] = true
	}
	return slices.Sorted(maps.Keys(used))
}

// imageTypesOf returns the image types that pods have or should have.
func imageTypesOf(c *v1beta2.FoundationDBCluster) []v1beta2.ImageType {
	return withDesired(c.Status.ImageTypes, either(c.Spec.ImageType, v1beta2.ImageTypeUnified))
}

// densitiesOf returns the numbers of servers that pods of a class have or should have. The file of the unified
// image does not depend on it.
func densitiesOf(c *v1beta2.FoundationDBCluster, class fdb.Class, image v1beta2.ImageType) []int {
	desired := ServersPerPod(c.Spec, class)
	switch {
	case image == v1beta2.ImageTypeUnified:
	case class == fdb.ClassStorage:
		return withDesired(c.Status.StorageServersPerDisk, desired)
	case class.LogLike():
		return withDesired(c.Status.LogServersPerDisk, desired)
	}
	return []int{desired}
}

func withDesired[T comparable](list []T, desired T) []T {
	if slices.Contains(list, desired) {
		return list
	}
	return append(slices.Clone(list), desired)
}
