{{- /* What the operator may do. test/deploy runs it under these rules, and
fails when one of them is not used or a request is refused. */ -}}

{{- define "pawl.rules" -}}
# The objects that are served, their status, and their finalizers, for whoever owns something in their name.
- apiGroups: [pawl.dev]
  resources: [sharedstorageclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [pawl.dev]
  resources: [sharedstorageclusters/status]
  verbs: [patch]
- apiGroups: [pawl.dev]
  resources: [sharedstorageclusters/finalizers]
  verbs: [update]
- apiGroups: [mpd.polardb.aliyun.com]
  resources: [mpdclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [mpd.polardb.aliyun.com]
  resources: [mpdclusters/status]
  verbs: [patch]
- apiGroups: [mpd.polardb.aliyun.com]
  resources: [mpdclusters/finalizers]
  verbs: [update]
# Runs of workflows, and what they leave behind.
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
  verbs: [get, list, watch, create, update, delete]
{{- end }}
# Who leads, who works, whose turn it is, and who may write to a database.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch, delete]
# What a cluster is made of. It is watched, so that what somebody deletes is put back; of Secrets only the metadata are.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# Whether there is room for what is asked for, before it is begun.
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
  verbs: [get, list, watch, create, delete]
# The roles of a cluster's own pods: nobody can give what he does not have.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
# What it tells people.
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
# Which nodes are there, and the volume that a cluster may be given.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get]
{{- end }}

{{- define "pawl.leaderRules" -}}
# Who leads, where the operator is and serves no clusters.
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
