package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// The targets of faults.
const (
	OnGroup = "GROUP" // a process group, its pod, or the first of a class: storage-17, orders-storage-17, storage
	OnNode  = "NODE"  // node-1
)

// Fault is a way in which the world misbehaves.
type Fault struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"` // what it needs: OnGroup, OnNode; empty: nothing
	Lasts  bool   `json:"lasts"`            // until it is cleared, or for as long as is asked
	Does   string `json:"does"`

	begin func(s *Sandbox, on target, d time.Duration) error
	end   func(s *Sandbox, on target) // of those that last and have a target
}

// target is what a fault hits.
type target struct {
	pod  *corev1.Pod
	node string
}

// server is the name of the first server of a group.
func (t target) server() string { return sim.ServerName(t.pod.Namespace, t.pod.Name, 1) }

// Faults returns the faults that there are.
func Faults() []Fault { return slices.Clone(faults) }

var faults = []Fault{
	onPod("crash", "its server ends by an error; its launcher starts it again", func(s *Sandbox, pod *corev1.Pod) { s.world.Crash(pod.Namespace, pod.Name, 1) }),
	onPod("kill-pod", "its pod is deleted", func(s *Sandbox, pod *corev1.Pod) { s.world.DeletePod(pod.Namespace, pod.Name) }),
	onPod("fail-pod", "its pod fails, as on a node that is short of memory, and stays", func(s *Sandbox, pod *corev1.Pod) { s.world.FailPod(pod.Namespace, pod.Name) }),
	onPod("lose-volume", "its volume is lost with all data on it, and its pod with it", func(s *Sandbox, pod *corev1.Pod) {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				s.world.DeleteClaim(pod.Namespace, v.PersistentVolumeClaim.ClaimName)
			}
		}
		s.world.DeletePod(pod.Namespace, pod.Name)
	}),
	{
		Name: "hang", Target: OnGroup, Lasts: true, Does: "its server is silent, while its pod runs",
		begin: func(s *Sandbox, on target, _ time.Duration) error {
			s.world.Cluster().Cut(on.server(), true)
			return nil
		},
		end: func(s *Sandbox, on target) { s.world.Cluster().Cut(on.server(), false) },
	},
	{
		Name: "lose-node", Target: OnNode, Lasts: true, Does: "nobody reaches the node; its pods are evicted after some minutes",
		begin: func(s *Sandbox, on target, _ time.Duration) error { s.world.LoseNode(on.node); return nil },
		end:   func(s *Sandbox, on target) { s.world.ReturnNode(on.node) },
	},
	{
		Name: "cordon", Target: OnNode, Lasts: true, Does: "no new pod comes on the node",
		begin: func(s *Sandbox, on target, _ time.Duration) error { s.world.Cordon(on.node, true); return nil },
		end:   func(s *Sandbox, on target) { s.world.Cordon(on.node, false) },
	},
	{
		Name: "partition", Target: OnGroup, Lasts: true, Does: "nobody reaches it as a coordinator",
		begin: func(s *Sandbox, on target, d time.Duration) error {
			for _, c := range s.world.Cluster().Connection().Coordinators {
				if c.Host == on.pod.Status.PodIP || strings.HasPrefix(c.Host, on.pod.Name+".") {
					s.world.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultPartition, For: d, Address: c})
					return nil
				}
			}
			return fmt.Errorf("%s is no coordinator", on.pod.Name)
		},
	},
	inDatabase("stuck-movement", true, fdbsim.FaultStuckMovement, "no data move"),
	inDatabase("partial-status", true, fdbsim.FaultStatusPartial, "fields of the status are missing, at random"),
	inDatabase("refuse-command", false, fdbsim.FaultCommandRefused, "the next command of fdbcli fails before it does anything"),
	inDatabase("lose-reply", false, fdbsim.FaultReplyLost, "the next command of fdbcli is done, and its output is lost"),
	inDatabase("second-recovery", false, fdbsim.FaultSecondRecovery, "the next recovery is followed by another one"),
	inDatabase("no-agents", true, fdbsim.FaultNoAgents, "no backup agent works"),
	inDatabase("blob-store-refuses", true, fdbsim.FaultStoreRefuses, "the blob store refuses everything"),
	inKubernetes("api-unavailable", sim.FaultUnavailable, "the API server's answers do not reach the operator"),
	inKubernetes("quota", sim.FaultQuota, "every second new pod is refused"),
	inKubernetes("late-lists", sim.FaultStaleList, "the operator sees Kubernetes as it was 30 s ago"),
	inKubernetes("claims-unbound", sim.FaultClaimUnbound, "no new claim is bound"),
	inKubernetes("claims-stuck", sim.FaultClaimStuck, "a claim that is deleted does not go"),
}

func onPod(name, does string, do func(*Sandbox, *corev1.Pod)) Fault {
	return Fault{Name: name, Target: OnGroup, Does: does, begin: func(s *Sandbox, on target, _ time.Duration) error { do(s, on.pod); return nil }}
}

func inDatabase(name string, lasts bool, kind fdbsim.FaultKind, does string) Fault {
	return Fault{Name: name, Lasts: lasts, Does: does, begin: func(s *Sandbox, _ target, d time.Duration) error {
		s.world.Cluster().Inject(fdbsim.Fault{Kind: kind, For: d})
		return nil
	}}
}

func inKubernetes(name string, kind sim.FaultKind, does string) Fault {
	return Fault{Name: name, Lasts: true, Does: does, begin: func(s *Sandbox, _ target, d time.Duration) error {
		s.world.Inject(sim.Fault{Kind: kind, For: d, Lag: 30 * time.Second})
		return nil
	}}
}

// Clear is the name by which all faults that last are ended.
const Clear = "clear"

// Asked is a fault that somebody asks for.
type Asked struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"`
	For    string `json:"for,omitempty"` // a time such as 5m, by the clock of the world; empty: until Clear
}

// Inject begins a fault, or ends all.
func (s *Sandbox) Inject(a Asked) error {
	if a.Name == Clear {
		return s.clear()
	}
	at := slices.IndexFunc(faults, func(f Fault) bool { return f.Name == a.Name })
	if at < 0 {
		return control.Invalid.Errorf("there is no fault %q", a.Name)
	}
	f := faults[at]
	var lasts time.Duration
	if a.For != "" {
		var err error
		if lasts, err = time.ParseDuration(a.For); err != nil || lasts <= 0 || !f.Lasts {
			return control.Invalid.Errorf("%s for %q: faults that last take a time such as 5m", f.Name, a.For)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	on, err := s.targetOf(f, a.Target)
	if err != nil {
		return err
	}
	if err := f.begin(s, on, lasts); err != nil {
		return control.Invalid.Errorf("%s: %w", f.Name, err)
	}
	if f.end != nil {
		key := f.Name + " " + a.Target
		s.undo[key] = func() { f.end(s, on) }
		if lasts > 0 {
			s.world.Cluster().After(lasts, s.undo[key])
		}
	}
	s.log.Info("fault", "name", f.Name, "target", a.Target, "for", a.For)
	return nil
}

// clear ends all faults that last.
func (s *Sandbox) clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, undo := range s.undo {
		undo()
	}
	clear(s.undo)
	s.world.Clear("")
	s.world.Cluster().Clear("")
	return nil
}

// targetOf finds what a fault hits. The caller holds the lock.
func (s *Sandbox) targetOf(f Fault, called string) (on target, err error) {
	switch {
	case f.Target == "" && called != "":
		return on, control.Invalid.Errorf("%s has no target", f.Name)
	case f.Target != "" && called == "":
		return on, control.Invalid.Errorf("%s needs a %s", f.Name, f.Target)
	case f.Target == OnNode:
		node := &corev1.Node{}
		node.Name, on.node = called, called
		if found, err := s.person.Get(context.Background(), node); err != nil || !found {
			return on, control.NotFound.Errorf("there is no node %s", called)
		}
	case f.Target == OnGroup:
		var pods corev1.PodList
		if err := s.person.List(context.Background(), &pods, "", nil); err != nil {
			return on, err
		}
		at := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool {
			return p.Name == called || p.Labels[foundationdb.GroupLabel] == called || p.Labels[foundationdb.ClassLabel] == called
		})
		if at < 0 {
			return on, control.NotFound.Errorf("there is no process group %s that has a pod", called)
		}
		on.pod = &pods.Items[at]
	}
	return on, nil
}

func (s *Sandbox) listFaults(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, faults)
}

func (s *Sandbox) injectFault(w http.ResponseWriter, r *http.Request) {
	var a Asked
	body, err := bodyOf(r)
	if err == nil {
		err = json.Unmarshal(body, &a)
	}
	if err == nil {
		err = s.Inject(a)
	}
	if err != nil {
		refuse(w, apierrors.NewBadRequest(fault.Message(err)))
		return
	}
	answer(w, http.StatusOK, a)
}

// skip lets time pass at once.
func (s *Sandbox) skip(w http.ResponseWriter, r *http.Request) {
	var a Asked
	body, err := bodyOf(r)
	if err == nil {
		err = json.Unmarshal(body, &a)
	}
	d, wrong := time.ParseDuration(a.For)
	if err != nil || wrong != nil || d <= 0 || d > mostSkip {
		refuse(w, apierrors.NewBadRequest(fmt.Sprintf("for: %q is no time up to %s", a.For, mostSkip)))
		return
	}
	if s.Skip(r.Context(), d) == nil {
		answer(w, http.StatusOK, map[string]time.Time{"now": s.Now()})
	}
}

// mostSkip is how much time can be skipped by one request.
const mostSkip = 30 * 24 * time.Hour
