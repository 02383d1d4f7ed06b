package clusters

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// outdatedPod is a pod whose files are not those of the config map, or are not known to be.
type outdatedPod struct {
	group *v1beta2.ProcessGroupStatus
	*member
	hash  string // of the files it should have
	conf  string // the monitor's
	image v1beta2.ImageType
}

// updatePodConfig brings the files in the pods up to the config map, and records which they have. What a
// pod refuses holds back that pod only.
func updatePodConfig(p *pass) decision {
	if p.wanted == nil || p.cluster.Status.ConnectionString == "" {
		return decision{}
	}
	outdated := p.outdatedPods()
	if len(outdated) == 0 {
		return decision{}
	}
	targets := make([]string, len(outdated))
	for i, o := range outdated {
		targets[i] = string(o.group.ProcessGroupID)
	}
	return acts(outcome.Done(), act{
		Name: "refresh the files of pod", Targets: targets,
		Assume: func(p *pass) {
			for _, id := range targets {
				p.drop(v1beta2.ProcessGroupID(id), v1beta2.IncorrectConfigMap)
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			behind := 0
			var first error
			for _, o := range outdated {
				done, err := p.refresh(ctx, o)
				if err != nil && first == nil {
					first = err
				}
				if done {
					p.drop(o.group.ProcessGroupID, v1beta2.IncorrectConfigMap)
				} else if !o.group.Marked() || len(p.processes[o.group.ProcessGroupID]) > 0 { // a silent one that goes holds nothing up
					behind++
				}
			}
			if behind == 0 {
				return outcome.Done()
			}
			if first != nil {
				return outcome.Later(startAgain, "PodConfigNotSynced", "%d of %d pods do not have their files yet: %v", behind, len(outdated), first)
			}
			return outcome.Later(startAgain, "PodConfigNotSynced", "%d of %d pods do not have their files yet", behind, len(outdated))
		},
	})
}

// outdatedPods are the pods whose files are to be refreshed: of groups that stay, and in an incompatible
// upgrade of marked ones too whose servers report, since they restart with the others; of marked ones that are silent and
// may hold data, which may be so because of the files that they have; before there is a database of all, since the first
// coordinators may be among them.
func (p *pass) outdatedPods() []outdatedPod {
	upgrade := foundationdb.UpgradesIncompatibly(p.cluster)
	hashes := p.configHashes()
	var found []outdatedPod
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		m := p.member(g.ProcessGroupID)
		if m.pod == nil || m.pod.DeletionTimestamp != nil || m.pod.Status.Phase != corev1.PodRunning || !p.refreshed(g, upgrade) {
			continue
		}
		class, image, servers := classOf(g), foundationdb.ImageTypeOf(m.pod), m.servers()
		o := outdatedPod{group: g, member: m, hash: hashes(class, image, servers), image: image}
		o.conf = p.wanted.Data[foundationdb.MonitorConfKey(class, image, servers)]
		differs := m.pod.Annotations[foundationdb.ConfigAnnotation] != o.hash
		if image == v1beta2.ImageTypeUnified {
			differs = differs || !launcherHas(m.pod, o.conf)
		}
		if differs || upgrade && !m.present {
			found = append(found, o)
		}
	}
	return found
}

// refreshed reports whether the pod of a group gets new files: one that goes does not, unless its servers restart with
// the others in an upgrade, or stand still and may hold what the database needs to come back.
func (p *pass) refreshed(g *v1beta2.ProcessGroupStatus, upgrade bool) bool {
	if !g.Marked() || !p.cluster.Status.Configured {
		return true
	}
	runs := len(p.processes[g.ProcessGroupID]) > 0
	return upgrade && runs || !runs && !g.Excluded() && (!upgrade || !p.cluster.Status.Health.Available)
}

// refresh brings the files of one pod up to date, as far as that can be done now. A changed annotation makes
// the kubelet look for new files. A launcher tells itself which file it uses, so the hash of a pod of the
// unified image is recorded with that; that of a pod of the split image once its files have it.
func (p *pass) refresh(ctx context.Context, o outdatedPod) (done bool, err error) {
	if o.image == v1beta2.ImageTypeUnified {
		done = launcherHas(o.pod, o.conf)
	} else {
		done, err = p.synced(ctx, o)
		if err != nil {
			o.unreachable = true
			p.add(o.group.ProcessGroupID, v1beta2.SidecarUnreachable)
			return false, err
		}
	}
	if foundationdb.UpgradesIncompatibly(p.cluster) && !o.present {
		done = false
	}
	annotations := map[string]string{}
	outdated := o.pod.Annotations[foundationdb.ConfigAnnotation] != o.hash
	if !done && (outdated || p.toldFor(o.pod) > nudgeAgain) {
		annotations[foundationdb.OutdatedConfigAnnotation] = strconv.FormatInt(p.now.Unix(), 10)
	}
	if outdated && (done || o.image == v1beta2.ImageTypeUnified) {
		annotations[foundationdb.ConfigAnnotation] = o.hash
	}
	if len(annotations) == 0 {
		return done, nil
	}
	labels := map[string]string{}
	for _, l := range p.lacking(o.group) {
		if l.child.GetUID() == o.pod.UID { // one write does for all
			labels = l.labels
			for name, value := range l.annotations {
				annotations[name] = value
			}
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadataPatch(labels, annotations)})
	if err != nil {
		return false, err
	}
	return done, p.patch(ctx, o.pod, patch)
}

// nudgeAgain is when a pod that does not refresh its files is told so again.
const nudgeAgain = 5 * time.Minute

// toldFor is how long ago a pod was told that its files are outdated.
func (p *pass) toldFor(pod *corev1.Pod) time.Duration {
	at, err := strconv.ParseInt(pod.Annotations[foundationdb.OutdatedConfigAnnotation], 10, 64)
	if err != nil {
		return nudgeAgain + time.Second
	}
	return p.now.Sub(time.Unix(at, 0))
}

// synced lets a sidecar copy its files, unless it has them, and reports whether it has.
func (p *pass) synced(ctx context.Context, o outdatedPod) (bool, error) {
	has := func() (bool, error) {
		for file, text := range map[string]string{"fdbmonitor.conf": o.expanded(), "fdb.cluster": p.wanted.Data[foundationdb.ClusterFileKey]} {
			hash, err := p.sidecars.Hash(ctx, o.pod, file)
			if err != nil || hash != fmt.Sprintf("%x", sha256.Sum256([]byte(text))) {
				return false, err
			}
		}
		return true, nil
	}
	if ok, err := has(); ok || err != nil {
		return ok, err
	}
	if err := p.sidecars.Copy(ctx, o.pod); err != nil {
		return false, err
	}
	return has()
}

// expanded is the monitor's file with the variables of the pod in it.
func (o outdatedPod) expanded() string { return foundationdb.Expanded(o.conf, o.variables) }

// add gives a group a condition, drop takes one away.
func (p *pass) add(id v1beta2.ProcessGroupID, t v1beta2.ProcessGroupConditionType) {
	if g := p.group(id); g != nil && !g.Has(t) {
		p.setConditions(g, append(conditionTypes(g, t, v1beta2.ProcessGroupConditionReady), t))
	}
}

func (p *pass) drop(id v1beta2.ProcessGroupID, t v1beta2.ProcessGroupConditionType) {
	if g := p.group(id); g != nil && g.Has(t) {
		p.setConditions(g, conditionTypes(g, t, v1beta2.ProcessGroupConditionReady))
	}
}

// conditionTypes are the conditions of a group without some.
func conditionTypes(g *v1beta2.ProcessGroupStatus, without ...v1beta2.ProcessGroupConditionType) []v1beta2.ProcessGroupConditionType {
	var kept []v1beta2.ProcessGroupConditionType
	for _, c := range g.ProcessGroupConditions {
		skip := false
		for _, w := range without {
			skip = skip || c.Type == w
		}
		if !skip {
			kept = append(kept, c.Type)
		}
	}
	return kept
}
