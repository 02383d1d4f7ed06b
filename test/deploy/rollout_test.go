package deploy_test

import (
	"os"
	"path/filepath"
	"time"
)

// rolloutObjects are a StatefulSet whose pods are evicted one by one because of their order, one whose
// broken pod is stuck, and two Deployments.
const rolloutObjects = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: evicted}
spec:
  replicas: 2
  serviceName: evicted
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: evicted}}
  template:
    metadata: {labels: {app: evicted, role: replica}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: main
          image: postgres:15
          command: [/bin/sleep, "3600"]
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: pawl.dev/v1alpha1
kind: Rollout
metadata: {name: evicted}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: evicted}
  rolloutPlan:
    order: {roleLabel: role, roles: [replica]}
    disruption: {quorum: {selector: {matchLabels: {app: evicted}}, minHealthy: 1}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: stuck}
spec:
  replicas: 2
  serviceName: stuck
  selector: {matchLabels: {app: stuck}}
  template:
    metadata: {labels: {app: stuck}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: main
          image: postgres:15
          command: [/bin/sleep, "3600"]
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: pawl.dev/v1alpha1
kind: Rollout
metadata: {name: stuck}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: stuck}
  rolloutPlan: {batchDeadline: 3s, onFailure: rollback}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-v1}
spec:
  replicas: 2
  selector: {matchLabels: {app: web, version: v1}}
  template:
    metadata: {labels: {app: web, version: v1}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: main
          image: postgres:15
          command: [/bin/sleep, "3600"]
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-v2}
spec:
  replicas: 0
  selector: {matchLabels: {app: web, version: v2}}
  template:
    metadata: {labels: {app: web, version: v2}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: main
          image: postgres:15
          command: [/bin/sleep, "7200"]
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: pawl.dev/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web-v2}
  sourceRef: {apiVersion: apps/v1, kind: Deployment, name: web-v1}
  rolloutPlan: {numBatches: 2}
`

// parkedObjects are a Rollout without anything to do.
const parkedObjects = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: parked}
spec:
  replicas: 0
  serviceName: parked
  selector: {matchLabels: {app: parked}}
  template:
    metadata: {labels: {app: parked}}
    spec: {containers: [{name: main, image: "postgres:15"}]}
---
apiVersion: pawl.dev/v1alpha1
kind: Rollout
metadata: {name: parked}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: parked}
  rolloutPlan: {}
`

// parkWorkload lets the operator hold a workload, which its admission rule protects.
func (h *fixture) parkWorkload() {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "parked.yaml")
	if err := os.WriteFile(file, []byte(parkedObjects), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.kubectl("apply", "-f", file)
	h.kubectl("wait", "--for=condition=Ready", "prol/parked", "--timeout=1m")
	h.kubectl("wait", "--for=condition=HoldUnguarded=False", "prol/parked", "--timeout=1m")
	h.kubectl("delete", "prol/parked", "sts/parked", "--timeout=1m")
}

// exerciseRollouts lets the operator use its rights on workloads.
func (h *fixture) exerciseRollouts() {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "rollouts.yaml")
	if err := os.WriteFile(file, []byte(rolloutObjects), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.step("rollouts", func() {
		h.kubectl("apply", "-f", file)
		h.kubectl("wait", "--for=condition=Succeeded", "prol/web", "--timeout=1m")
		h.kubectl("wait", "--for=condition=Ready", "prol/evicted", "prol/stuck", "--timeout=1m")
		h.kubectl("wait", "--for=condition=HoldUnguarded=False", "prol/evicted", "prol/stuck", "--timeout=1m")
		command := func(set, command string) {
			h.kubectl("patch", "sts/"+set, "--type=json", "-p", `[{"op":"replace","path":"/spec/template/spec/containers/0/command","value":[`+command+`]}]`)
		}
		command("evicted", `"/bin/sleep","4000"`)
		command("stuck", `"/bin/false"`)
		h.kubectl("wait", "--for=condition=Succeeded", "prol/evicted", "--timeout=1m")
		h.kubectl("wait", "--for=condition=RolledBack", "prol/stuck", "--timeout=1m")
		h.kubectl("rollout", "status", "sts/stuck", "--timeout=1m")
	})
	h.step("delete rollouts", func() {
		h.kubectl("delete", "prol", "--all", "--timeout=1m")
		h.kubectl("get", "sts/evicted", "sts/stuck", "deployment/web-v2")
		time.Sleep(time.Second)
		h.kubectl("delete", "sts,deployments", "evicted", "stuck", "web-v1", "web-v2", "--ignore-not-found", "--timeout=1m")
	})
}
