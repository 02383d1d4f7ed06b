package foundationdb

import (
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Labels by which children are found, unless the spec names others. Source of all names in this file:
// fdb-kubernetes-operator 2.33.0, api/v1beta2/foundationdb_labels.go, _constants.go and _env_variables.go.
const (
	ClusterLabel = "foundationdb.org/fdb-cluster-name"
	ClassLabel   = "foundationdb.org/fdb-process-class"
	GroupLabel   = "foundationdb.org/fdb-process-group-id"
)

// Keys of fault domains that are no topology keys.
const (
	hostDomain              = "kubernetes.io/hostname"
	kubernetesClusterDomain = "foundationdb.org/kubernetes-cluster"
	noDomain                = "foundationdb.org/none" // each pod is one
)

// noScheduleLabel is a label that no node has.
const noScheduleLabel = "foundationdb.org/no-schedule-allowed"

// Containers of a pod. The unified image has no init container.
const (
	MainContainer    = "foundationdb"
	SidecarContainer = "foundationdb-kubernetes-sidecar"
	InitContainer    = "foundationdb-kubernetes-init"
)

// Repositories of images. The tags of the sidecar have a suffix.
const (
	mainImage     = "foundationdb/foundationdb"
	sidecarImage  = "foundationdb/foundationdb-kubernetes-sidecar"
	sidecarSuffix = "-1"
	unifiedImage  = "foundationdb/fdb-kubernetes-monitor"
)

// Variables of a pod.
const (
	envPublicIP    = "FDB_PUBLIC_IP"
	envPodIP       = "FDB_POD_IP"
	envPodName     = "FDB_POD_NAME"
	envNamespace   = "FDB_POD_NAMESPACE"
	envNode        = "FDB_NODE_NAME"
	envInstance    = "FDB_INSTANCE_ID"
	envMachine     = "FDB_MACHINE_ID"
	envZone        = "FDB_ZONE_ID"
	envDNSName     = "FDB_DNS_NAME"
	envClusterFile = "FDB_CLUSTER_FILE"
	envCAFile      = "FDB_TLS_CA_FILE"
	envVerifyPeers = "FDB_TLS_VERIFY_PEERS"
	envLogGroup    = "FDB_NETWORK_OPTION_TRACE_LOG_GROUP"
	envTrace       = "FDB_NETWORK_OPTION_TRACE_ENABLE"
	envBinaryDir   = "BINARY_DIR" // known to launcher and sidecar, no variable of a container
	serversSuffix  = "_SERVERS_PER_POD"

	envProcessCount = "PROCESS_COUNT" // the launcher takes its flags from variables too
)

// Volumes of a pod, and where its containers have them. Source: internal/pod_models.go.
const (
	dataVolume     = "data"
	dynamicVolume  = "dynamic-conf"
	configVolume   = "config-map"
	logVolume      = "fdb-trace-logs"
	binariesVolume = "shared-binaries"

	dataPath     = "/var/fdb/data"
	dynamicPath  = "/var/dynamic-conf"
	inputPath    = "/var/input-files"
	outputPath   = "/var/output-files"
	logPath      = "/var/log/fdb-trace-logs"
	binariesPath = "/var/fdb/shared-binaries"
	clusterFile  = "fdb.cluster"
	caFile       = "ca.pem"
)

// Keys of the config map.
const (
	ClusterFileKey    = "cluster-file"
	RunningVersionKey = "running-version"
	caFileKey         = "ca-file"
	sidecarConfKey    = "sidecar-conf" // from spec.configMap
)

// PodName returns the name of the pod of a group: cluster-class-number.
func PodName(c *v1beta2.FoundationDBCluster, id fdb.GroupID) string {
	id.Prefix = ""
	return c.Name + "-" + strings.ReplaceAll(id.String(), "_", "-")
}

// ClaimName returns the name of the volume claim of a group: that of its pod with -data, or with the name of
// the claim's template. Groups that are not stateful have none: empty.
func ClaimName(c *v1beta2.FoundationDBCluster, id fdb.GroupID) string {
	if !id.Class.Stateful() {
		return ""
	}
	name := "data"
	if t := settingsOf(c.Spec, id.Class).VolumeClaimTemplate; t != nil && t.Name != "" {
		name = t.Name
	}
	return PodName(c, id) + "-" + name
}

// publishedClaimName is how release 2.33.0 of the published operator names the claim of a group, whatever its template.
func publishedClaimName(c *v1beta2.FoundationDBCluster, id fdb.GroupID) string {
	if !id.Class.Stateful() {
		return ""
	}
	return PodName(c, id) + "-data"
}

// settingsOf returns the settings of a class: each field is its own or that of general. Groups that are not
// stateful have no claim.
func settingsOf(spec v1beta2.FoundationDBClusterSpec, class fdb.Class) v1beta2.ProcessSettings {
	s, general := spec.Processes[v1beta2.ProcessClass(class)], spec.Processes[v1beta2.ProcessClass(fdb.ClassGeneral)]
	if s.PodTemplate == nil {
		s.PodTemplate = general.PodTemplate
	}
	if s.VolumeClaimTemplate == nil {
		s.VolumeClaimTemplate = general.VolumeClaimTemplate
	}
	if s.CustomParameters == nil {
		s.CustomParameters = general.CustomParameters
	}
	if !class.Stateful() {
		s.VolumeClaimTemplate = nil
	}
	return s
}
