package deploy_test

import (
	"os"
	"path/filepath"
)

// applicationObject has a Deployment that its plan moves, and a StatefulSet.
const applicationObject = `
apiVersion: pawl.dev/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  revisionHistoryLimit: 1
  rolloutComponent: front
  rolloutPlan: {numBatches: 1}
  components:
    - name: front
      workload:
        apiVersion: apps/v1
        kind: Deployment
        spec:
          replicas: 1
          selector: {matchLabels: {app: front}}
          template:
            metadata: {labels: {app: front}}
            spec:
              terminationGracePeriodSeconds: 1
              securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
              containers:
                - name: main
                  image: postgres:15
                  command: [/bin/sleep, "3600"]
                  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    - name: db
      workload:
        apiVersion: apps/v1
        kind: StatefulSet
        spec:
          replicas: 2
          serviceName: db
          podManagementPolicy: Parallel
          selector: {matchLabels: {app: db}}
          template:
            metadata: {labels: {app: db}}
            spec:
              terminationGracePeriodSeconds: 1
              securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
              containers:
                - name: main
                  image: postgres:15
                  command: [/bin/sleep, "3600"]
                  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// exerciseApplications lets the operator make, change and delete workloads and revisions.
func (h *fixture) exerciseApplications() {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "application.yaml")
	if err := os.WriteFile(file, []byte(applicationObject), 0o600); err != nil {
		h.t.Fatal(err)
	}
	sleep := func(component, seconds string) {
		h.kubectl("patch", "papp/shop", "--type=json", "-p", `[{"op":"replace","path":"/spec/components/`+component+`/workload/spec/template/spec/containers/0/command/1","value":"`+seconds+`"}]`)
	}
	h.step("applications", func() {
		h.kubectl("apply", "-f", file)
		h.kubectl("wait", "--for=jsonpath={.status.reachedRevision}=shop-v1", "papp/shop", "--timeout=1m")
		h.kubectl("wait", "--for=condition=Ready", "papp/shop", "--timeout=1m")
		sleep("0", "4000")
		h.kubectl("wait", "--for=jsonpath={.status.reachedRevision}=shop-v2", "papp/shop", "--timeout=1m")
		h.kubectl("wait", "--for=delete", "deployment/front-v1", "--timeout=1m")
		sleep("0", "5000")
		h.kubectl("wait", "--for=jsonpath={.status.reachedRevision}=shop-v3", "papp/shop", "--timeout=1m")
		h.kubectl("wait", "--for=delete", "papprev/shop-v1", "--timeout=1m")
	})
	h.step("delete an application in the middle", func() {
		h.kubectl("patch", "papp/shop", "--type=merge", "-p", `{"spec":{"rolloutComponent":"db","rolloutPlan":{"numBatches":2,"batchPartition":0}}}`)
		sleep("1", "4000")
		h.kubectl("wait", "--for=condition=Paused", "prol/shop", "--timeout=1m")
		h.kubectl("delete", "papp/shop", "--timeout=1m")
		h.kubectl("wait", "--for=delete", "sts/db", "prol/shop", "papprev/shop-v3", "--timeout=1m")
	})
}
