package probe

import (
	"context"
	"maps"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Sidecars remembers what pods have said.
type Sidecars struct {
	// variables are those of pods: of the split image they do not change while the pod lives, of the unified
	// one they are read from an annotation.
	variables map[types.UID]variables
	// present are the pods that have the binary of a version.
	present map[types.UID]string
}

// variables are those of a pod, and the annotation that tells them.
type variables struct {
	text   string
	values map[string]string
}

// Read asks the sidecars of members what the status does not say. Pods of the unified image tell it by
// annotations; what a sidecar of the split image says once holds as long as the pod lives.
// Of an upgrade, version is the one whose binary is looked for; empty: none.
func (k *Sidecars) Read(ctx context.Context, sidecars port.Sidecars, members map[v1beta2.ProcessGroupID]*groups.Member, version string, parallel int) {
	if k.variables == nil {
		k.variables, k.present = map[types.UID]variables{}, map[types.UID]string{}
	}
	var asked []*groups.Member
	upgrade := version != ""
	for _, m := range members {
		if m.Pod == nil {
			continue
		}
		if foundationdb.ImageTypeOf(m.Pod) == v1beta2.ImageTypeUnified {
			m.Variables = k.told(m.Pod)
			m.Present = upgrade && groups.LauncherVersion(m.Pod) == version
			continue
		}
		if known := k.variables[m.Pod.UID]; known.text == sidecarRun(m.Pod) {
			m.Variables = known.values
		}
		m.Present = upgrade && k.present[m.Pod.UID] == version
		if foundationdb.ContainerReady(m.Pod, foundationdb.SidecarContainer) && (m.Variables == nil || upgrade && !m.Present) {
			asked = append(asked, m)
		}
	}
	each(asked, parallel, func(m *groups.Member) { ask(ctx, sidecars, m, version) })
	for _, m := range asked {
		if m.Variables != nil {
			k.variables[m.Pod.UID] = variables{text: sidecarRun(m.Pod), values: m.Variables}
		}
		if m.Present {
			k.present[m.Pod.UID] = version
		}
	}
}

// told are the variables that the launcher of a pod has told.
func (k *Sidecars) told(pod *corev1.Pod) map[string]string {
	text := pod.Annotations[foundationdb.LauncherEnvironmentAnnotation]
	known := k.variables[pod.UID]
	if known.text != text || known.values == nil {
		known.text = text
		known.values, _ = foundationdb.ToldVariables(pod)
		k.variables[pod.UID] = known
	}
	return known.values
}

// ask asks a sidecar.
func ask(ctx context.Context, sidecars port.Sidecars, m *groups.Member, version string) {
	if m.Variables == nil {
		variables, err := sidecars.Substitutions(ctx, m.Pod)
		if err != nil {
			m.Unreachable, m.Why = true, err
			return
		}
		m.Variables = variables
	}
	if version != "" && !m.Present {
		present, err := sidecars.Present(ctx, m.Pod, "bin/"+version+"/fdbserver")
		m.Present, m.Unreachable, m.Why = present && err == nil, err != nil, err
	}
}

// Forget drops what is known of pods that are gone.
func (k *Sidecars) Forget(gone func(types.UID) bool) {
	maps.DeleteFunc(k.variables, func(uid types.UID, _ variables) bool { return gone(uid) })
	maps.DeleteFunc(k.present, func(uid types.UID, _ string) bool { return gone(uid) })
}

// each runs something for each member, for several at a time.
func each(all []*groups.Member, parallel int, do func(*groups.Member)) {
	if parallel == 1 {
		for _, m := range all {
			do(m)
		}
		return
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, m := range all {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(m)
		})
	}
	group.Wait()
}

// sidecarRun names the program that the sidecar of a pod runs: another one has other variables.
func sidecarRun(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == foundationdb.SidecarContainer {
			return s.Image + " " + strconv.Itoa(int(s.RestartCount))
		}
	}
	return ""
}
