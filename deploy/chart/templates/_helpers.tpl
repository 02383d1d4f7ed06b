{{- define "pawl.fullname" -}}
{{- if contains "pawl" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-pawl" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "pawl.account" -}}
{{- .Values.serviceAccount.name | default (ternary (include "pawl.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "pawl.selector" -}}
app.kubernetes.io/name: pawl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "pawl.labels" -}}
{{ include "pawl.selector" . }}
app.kubernetes.io/part-of: pawl
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{- /* The image that the operator runs in: with FoundationDB it needs the C library that the tools need. */ -}}
{{- define "pawl.operatorImage" -}}
{{- if .Values.foundationdb.enabled }}{{ .Values.foundationdb.image | default (printf "%s:%s-fdb" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)) }}{{ else }}{{ include "pawl.image" . }}{{ end }}
{{- end }}

{{- /* Not empty when a CRD is there that is not of this chart: (list . "name"). */ -}}
{{- define "pawl.foreignCRD" -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (index . 1) }}
{{- if and $there (ne (dig "metadata" "labels" "app.kubernetes.io/name" "" $there) "pawl") }}yes{{ end }}
{{- end }}

{{- define "pawl.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
