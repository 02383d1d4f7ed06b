package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MPDCluster is a database cluster as PolarDB Stack describes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mpd
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.clusterStatus`
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leaderInstanceId`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.leaderInstanceHost`
// +kubebuilder:printcolumn:name="Followers",type=integer,JSONPath=`.status.followerNum`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MPDCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MPDClusterSpec   `json:"spec,omitempty"`
	Status MPDClusterStatus `json:"status,omitempty"`
}

// MPDClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type MPDClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MPDCluster `json:"items"`
}

// MPDClusterSpec is the desired state.
//
// +kubebuilder:pruning:PreserveUnknownFields
type MPDClusterSpec struct {
	OperatorName string `json:"operatorName,omitempty"` // default polar-mpd
	// DBClusterType is share; local is not served.
	DBClusterType string `json:"dbClusterType,omitempty"`
	DBType        string `json:"dbType,omitempty"`
	Description   string `json:"description,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	FollowerNum        int32            `json:"followerNum"`
	ClassInfo          ClassInfo        `json:"classInfo,omitempty"`
	ClassInfoModifyTo  ClassInfo        `json:"classInfoModifyTo,omitempty"` // requested change; removed when done
	ShareStore         *ShareStore      `json:"shareStore,omitempty"`
	NetCfg             NetConfiguration `json:"netCfg,omitempty"`
	VersionCfg         VersionInfo      `json:"versionCfg,omitempty"`
	VersionCfgModifyTo VersionInfo      `json:"versionCfgModifyTo,omitempty"` // requested change; removed when done
}

// ClassInfo names a class.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ClassInfo struct {
	ClassName string `json:"className"`
	CPU       string `json:"cpu,omitempty"`
	Memory    string `json:"memory,omitempty"`
}

// ShareStore is the storage. Each instance has a claim of its own.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ShareStore struct {
	Drive             string `json:"drive,omitempty"`
	SharePvcName      string `json:"sharePvcName,omitempty"`
	SharePvcNamespace string `json:"sharePvcNamespace,omitempty"`
	VolumeID          string `json:"volumeId,omitempty"`
	DiskQuota         string `json:"diskQuota,omitempty"` // MB
}

// NetConfiguration configures ports.
//
// +kubebuilder:pruning:PreserveUnknownFields
type NetConfiguration struct {
	EngineStartPort int32 `json:"engineStartPort,omitempty"`
	PortStep        int32 `json:"portStep,omitempty"`
}

// VersionInfo names a version and its images.
//
// +kubebuilder:pruning:PreserveUnknownFields
type VersionInfo struct {
	VersionName         string `json:"versionName,omitempty"`
	EngineImage         string `json:"engineImage,omitempty"`
	ManagerImage        string `json:"managerImage,omitempty"`
	ClusterManagerImage string `json:"clusterManagerImage,omitempty"`
}

// MPDClusterStatus is the observed state.
//
// +kubebuilder:pruning:PreserveUnknownFields
type MPDClusterStatus struct {
	ClusterStatus      string                     `json:"clusterStatus,omitempty"`
	FollowerNum        int32                      `json:"followerNum,omitempty"`
	LeaderInstanceID   string                     `json:"leaderInstanceId,omitempty"`
	LeaderInstanceHost string                     `json:"leaderInstanceHost,omitempty"`
	DBInstanceStatus   map[string]*InstanceStatus `json:"dbInstanceStatus,omitempty"`
	Conditions         []Condition                `json:"conditions,omitempty"`
}

// InstanceStatus is one instance.
//
// +kubebuilder:pruning:PreserveUnknownFields
type InstanceStatus struct {
	InsID        string      `json:"insId,omitempty"`
	InsName      string      `json:"insName,omitempty"`
	PodName      string      `json:"podName,omitempty"`
	PodNamespace string      `json:"podNameSpace,omitempty"`
	NodeName     string      `json:"nodeName,omitempty"`
	HostClientIP string      `json:"hostClientIP,omitempty"`
	Installed    bool        `json:"installed,omitempty"`
	Role         string      `json:"role,omitempty"`    // leader, follower
	InsType      string      `json:"insType,omitempty"` // rw, ro, tempro
	Status       string      `json:"status,omitempty"`
	VersionInfo  VersionInfo `json:"versionInfo,omitempty"`
	InsClassInfo ClassInfo   `json:"insClassInfo,omitempty"`
	NetInfo      NetInfo     `json:"netInfo,omitempty"`
}

// NetInfo is the address of an instance.
//
// +kubebuilder:pruning:PreserveUnknownFields
type NetInfo struct {
	WorkingPort   int32  `json:"workingPort,omitempty"`
	WorkingHostIP string `json:"workingHostIP,omitempty"`
}

// Condition is a condition of the cluster.
type Condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	LastProbeTime      metav1.Time `json:"lastProbeTime,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}
