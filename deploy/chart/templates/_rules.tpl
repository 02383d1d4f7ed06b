{{- /* What the operator may do. test/deploy runs it under these rules, and
fails when one of them is not used or a request is refused. */ -}}

{{- /* Not empty when an operator is served: (list . "sharedstorage"). */ -}}
{{- define "pawl.serves" -}}
{{- $operators := (index . 0).Values.operators }}
{{- if or (not $operators) (has (index . 1) $operators) }}yes{{ end }}
{{- end }}

{{- define "pawl.servesFoundationDB" -}}
{{- if and .Values.foundationdb.enabled (include "pawl.serves" (list . "foundationdb")) }}yes{{ end }}
{{- end }}

{{- define "pawl.rules" -}}
{{- if include "pawl.serves" (list . "sharedstorage") }}
# The clusters, their status, and their finalizers, which owner references require.
- apiGroups: [pawl.dev]
  resources: [sharedstorageclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [pawl.dev]
  resources: [sharedstorageclusters/status]
  verbs: [patch]
- apiGroups: [pawl.dev]
  resources: [sharedstorageclusters/finalizers]
  verbs: [update]
# Their backups: the schedule creates them, and removes those that have expired.
- apiGroups: [pawl.dev]
  resources: [sharedstoragebackups]
  verbs: [get, list, watch, patch, create, delete]
- apiGroups: [pawl.dev]
  resources: [sharedstoragebackups/status]
  verbs: [patch]
- apiGroups: [pawl.dev]
  resources: [sharedstoragebackups/finalizers]
  verbs: [update]
{{- end }}
{{- if include "pawl.serves" (list . "mpd") }}
- apiGroups: [mpd.polardb.aliyun.com]
  resources: [mpdclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [mpd.polardb.aliyun.com]
  resources: [mpdclusters/status]
  verbs: [patch]
- apiGroups: [mpd.polardb.aliyun.com]
  resources: [mpdclusters/finalizers]
  verbs: [update]
{{- end }}
# Runs of workflows and their history.
{{- if eq .Values.operator.runs "ConfigMap" }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
{{- else }}
- apiGroups: [pawl.dev]
  resources: [runs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [pawl.dev]
  resources: [runs/status]
  verbs: [patch]
- apiGroups: [pawl.dev]
  resources: [runhistories]
  verbs: [list, create, deletecollection]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch, delete]
{{- end }}
# Leases: leader election, workers, run slots, and the writers of databases.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch, delete]
{{- if or (include "pawl.serves" (list . "sharedstorage")) (include "pawl.serves" (list . "mpd")) }}
# The objects of a cluster. The operator watches them to recreate deleted ones; of Secrets it watches the metadata only.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# Capacity checks before a change begins.
- apiGroups: [""]
  resources: [resourcequotas]
  verbs: [list]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
# The roles of a cluster's own pods: the operator can only grant rights that it has.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- if include "pawl.serves" (list . "rollout") }}
# Rollouts, the workloads that they change, and what limits them. Workloads are only patched.
- apiGroups: [pawl.dev]
  resources: [rollouts]
  verbs: [get, list, watch, patch]
- apiGroups: [pawl.dev]
  resources: [applicationrevisions]
  verbs: [list, watch]
- apiGroups: [pawl.dev]
  resources: [rollouts/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [statefulsets, deployments]
  verbs: [get, list, watch, patch]
- apiGroups: [apps.kruise.io]
  resources: [clonesets, statefulsets]
  verbs: [get, list, watch, patch]
- apiGroups: [apps]
  resources: [controllerrevisions, replicasets]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
# Pods are watched while something moves. One that is stuck is deleted; where an order is asked for, pods are evicted.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- if .Values.rollout.exec }}
# Probes and handovers that are commands.
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
{{- end }}
{{- if .Values.rollout.secrets }}
# Client certificates and tokens of webhooks and metrics.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
# The anchor of a namespace, older records of histories, and queries of metrics.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, delete]
{{- end }}
{{- if include "pawl.serves" (list . "application") }}
# Applications, their revisions and Rollouts. Only this operator makes and deletes workloads.
- apiGroups: [pawl.dev]
  resources: [applications]
  verbs: [get, list, watch, patch]
- apiGroups: [pawl.dev]
  resources: [applications/status]
  verbs: [patch]
- apiGroups: [pawl.dev]
  resources: [applicationrevisions]
  verbs: [list, watch, create, delete]
- apiGroups: [pawl.dev]
  resources: [rollouts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [statefulsets, deployments]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- if include "pawl.servesFoundationDB" . }}
# FoundationDB: clusters, backups, restores, and their children. The config map of a cluster is read by its name.
- apiGroups: [apps.foundationdb.org]
  resources: [foundationdbclusters, foundationdbbackups, foundationdbrestores]
  verbs: [get, list, watch, patch]
- apiGroups: [apps.foundationdb.org]
  resources: [foundationdbclusters/status, foundationdbbackups/status, foundationdbrestores/status]
  verbs: [patch]
- apiGroups: [apps.foundationdb.org]
  resources: [foundationdbclusters/finalizers, foundationdbbackups/finalizers, foundationdbrestores/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims, services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create, patch]
{{- if .Values.foundationdb.fixCoordinatorIPs }}
# Cluster files in pods whose coordinators have moved.
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get]
{{- end }}
{{- end }}
# Events.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- with .Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "pawl.clusterRules" -}}
{{- if or (include "pawl.serves" (list . "sharedstorage")) (include "pawl.serves" (list . "mpd")) }}
# The nodes, and the volume that a cluster may use.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get]
{{- end }}
{{- if and .Values.foundationdb.taints (include "pawl.servesFoundationDB" .) }}
# Taints of nodes.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
# Kinds that are installed later.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
{{- if include "pawl.serves" (list . "rollout") }}
# Whether the admission rules that protect held workloads are installed.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingadmissionpolicybindings]
  resourceNames:
    {{- range list "" "-advancedstatefulsets" "-clonesets" "-clonesets-v1beta1" }}
    - {{ include "pawl.fullname" $ }}-rollout-guard{{ . }}
    {{- end }}
  verbs: [get]
{{- end }}
{{- end }}

{{- define "pawl.leaderRules" -}}
# Leader election in the operator's namespace, if it serves no clusters.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [pawl-operator]
  verbs: [get, update]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}

{{- define "pawl.homeRules" -}}
{{ include "pawl.leaderRules" . }}
# With several namespaces the leases of workers and the definitions of flows are here too.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create]
{{- end }}

{{- define "pawl.storeRules" -}}
# Runs of several namespaces are watched by one watch of all.
{{- if eq .Values.operator.runs "ConfigMap" }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch]
{{- else }}
- apiGroups: [pawl.dev]
  resources: [runs]
  verbs: [list, watch]
{{- end }}
{{- end }}
