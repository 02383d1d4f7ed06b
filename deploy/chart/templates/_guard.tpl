{{- /* When an admission rule acts: on held workloads, in writes of others, unless the workload says otherwise. */ -}}
{{- define "pawl.guardConditions" -}}
- name: held
  expression: "has(oldObject.metadata.labels) && 'pawl.dev/held' in oldObject.metadata.labels"
- name: not-by-pawl
  expression: "!(request.userInfo.username in {{ prepend .Values.rollout.guardAccounts (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "pawl.account" .)) | toJson | replace "\"" "'" }})"
- name: guarded
  expression: "!(has(object.metadata.annotations) && 'pawl.dev/unguarded' in object.metadata.annotations)"
{{- end }}
