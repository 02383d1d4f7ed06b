package rollout

import (
	"time"

	"github.com/pawl-dev/pawl/rollout/internal/ordinal"
)

// Kind is a kind of workload.
type Kind string

const (
	Deployment          Kind = "Deployment"
	StatefulSet         Kind = "StatefulSet"
	CloneSet            Kind = "CloneSet"
	AdvancedStatefulSet Kind = "AdvancedStatefulSet"
)

// HoldAll is the partition that keeps every pod, also those that are born later.
const HoldAll = 1<<31 - 1

// Update types of a workload.
const (
	RollingUpdate = "RollingUpdate"
	OnDelete      = "OnDelete"
	Recreate      = "Recreate"
)

// Facts are what one observation of a rollout has shown. They are plain values: a test writes them by
// hand.
type Facts struct {
	// Now is the time of the observation. Next sets it; callers of the rules set it themselves.
	Now     time.Time `json:"now,omitzero"`
	Rollout Identity  `json:"rollout"`
	Wanted  Wanted    `json:"wanted"`
	// Target is the workload to change; nil: it does not exist.
	Target *WorkloadFacts `json:"target,omitempty"`
	// Sources are the Deployments to leave, the oldest first. Other kinds have none.
	Sources []WorkloadFacts `json:"sources,omitempty"`
	// Pods are those of target and sources.
	Pods []Pod `json:"pods,omitempty"`
	// Members are the pods that the quorum selects, those of other workloads too.
	Members []Pod `json:"members,omitempty"`
	// Budgets are the PodDisruptionBudgets that select pods of the target.
	Budgets []PodBudget `json:"budgets,omitempty"`
	// Answers are those that have come since the last save, by the key of their ask.
	Answers map[string]Answer `json:"answers,omitempty"`
	// Turn is who may release pods of a quorum that several rollouts share; nil: this rollout.
	Turn *Turn `json:"turn,omitempty"`
	// Autoscaler is the HorizontalPodAutoscaler that targets the workload; empty: none.
	Autoscaler string `json:"autoscaler,omitempty"`
	// Unserved is the kind of the target if the API server does not serve it.
	Unserved string `json:"unserved,omitempty"`
	// Unavailable is how long the API server did not answer since the rollout began. No deadline
	// counts it.
	Unavailable Duration `json:"unavailable,omitempty"`
	// Since is when the process that asks looked at the rollout for the first time; zero: always. A
	// deadline that has passed before gives it some time to work.
	Since time.Time `json:"since,omitzero"`
	// Recorded is true if target and sources are those of the recorded pair of revisions, and another
	// pair is asked for.
	Recorded bool `json:"recorded,omitempty"`
	// MissingRevision is a revision of an Application that does not exist.
	MissingRevision string `json:"missingRevision,omitempty"`
	// GateProblem is why the expression of a gate cannot be evaluated; empty: all can.
	GateProblem string `json:"gateProblem,omitempty"`
}

// Identity is the Rollout itself.
type Identity struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// Wanted is what the Rollout asks for now.
type Wanted struct {
	Kind Kind `json:"kind"`
	// Named is true if the revisions are those of an Application. Otherwise the target is the
	// template that the workload has, and the source is what its pods have.
	Named          bool   `json:"named,omitempty"`
	TargetRevision string `json:"targetRevision,omitempty"`
	SourceRevision string `json:"sourceRevision,omitempty"`
	TargetSize     *int   `json:"targetSize,omitempty"`
	// HasSource is true if sourceRef or a source revision is set.
	HasSource bool `json:"hasSource,omitempty"`
	// HoldAlways parks the workload between rollouts.
	HoldAlways     bool           `json:"holdAlways,omitempty"`
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	Deleting       bool           `json:"deleting,omitempty"`
	Request        *Request       `json:"request,omitempty"`
	// PausedFor is why the plan is paused, and who has paused it; empty: nobody has said.
	PausedFor string `json:"pausedFor,omitempty"`
}

// DeletionPolicy is what the deletion of a Rollout in the middle does.
type DeletionPolicy string

const (
	Keep             DeletionPolicy = "Keep" // default: no pod moves
	RollbackOnDelete DeletionPolicy = "Rollback"
	Complete         DeletionPolicy = "Complete"
)

// Verb is a request.
type Verb string

const (
	Approve      Verb = "approve"
	Resume       Verb = "resume"
	Retry        Verb = "retry"
	Abandon      Verb = "abandon"
	RollBackVerb Verb = "rollback"
)

// Request is something asked for once.
type Request struct {
	ID       string `json:"id"`
	Verb     Verb   `json:"verb"`
	Argument string `json:"argument,omitempty"` // of approve: an index, next or all
	Pause    string `json:"pause,omitempty"`    // of resume and retry: the id of the pause
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Owner is the controller of a workload.
type Owner struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	UID  string `json:"uid"`
	Gone bool   `json:"gone,omitempty"` // a live read has shown that it does not exist any more
}

// WorkloadFacts are one workload. Absent replicas are 1 there.
type WorkloadFacts struct {
	Kind               Kind   `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Generation         int64  `json:"generation"`
	ObservedGeneration int64  `json:"observedGeneration"`
	ResourceVersion    string `json:"resourceVersion,omitempty"`
	Deleting           bool   `json:"deleting,omitempty"`
	Replicas           int    `json:"replicas"`
	StatusReplicas     int    `json:"statusReplicas"`
	// Partition is the number of pods kept old; HoldAll keeps all.
	Partition       int      `json:"partition"`
	Paused          bool     `json:"paused,omitempty"`
	UpdateType      string   `json:"updateType,omitempty"` // RollingUpdate, OnDelete, Recreate
	Parallel        bool     `json:"parallel,omitempty"`   // pods start and stop without order
	Unordered       bool     `json:"unordered,omitempty"`  // updates count pods, not ordinals
	MinReadySeconds int      `json:"minReadySeconds,omitempty"`
	FirstOrdinal    int      `json:"firstOrdinal,omitempty"`
	Reserved        []string `json:"reserved,omitempty"` // ordinals that an Advanced StatefulSet skips
	// First are the pods that a workload which counts pods was told to move before the others.
	First []string `json:"first,omitempty"`
	// Priority is true if its user has given such a workload an order of its own.
	Priority bool `json:"priority,omitempty"`
	// Strategy is the update strategy as the workload has it, in JSON: opaque, for the end to restore.
	Strategy string `json:"strategy,omitempty"`
	// Template is the revision that the template is: of an Application, or of the workload itself.
	Template        string `json:"template"`
	CurrentRevision string `json:"currentRevision"`
	UpdateRevision  string `json:"updateRevision"`
	Controller      *Owner `json:"controller,omitempty"`
	Anchored        bool   `json:"anchored,omitempty"` // the anchor is an owner too
	Label           string `json:"label,omitempty"`    // the Rollout that the label names
	Held            bool   `json:"held,omitempty"`     // the label that the admission rule matches
	Guarded         bool   `json:"guarded,omitempty"`  // the admission rule protects it
}

// Pod is one pod of a workload.
type Pod struct {
	Name            string                `json:"name"`
	UID             string                `json:"uid,omitempty"`
	ResourceVersion string                `json:"resourceVersion,omitempty"`
	Workload        string                `json:"workload,omitempty"` // UID; empty: the target
	Ordinal         int                   `json:"ordinal"`            // -1: none
	Revision        string                `json:"revision"`
	Ready           bool                  `json:"ready"`
	ReadySince      time.Time             `json:"readySince,omitzero"`
	Terminating     bool                  `json:"terminating,omitempty"`
	Role            string                `json:"role,omitempty"`
	Zone            string                `json:"zone,omitempty"` // empty: unknown
	Node            string                `json:"node,omitempty"`
	Restarts        int                   `json:"restarts,omitempty"`
	Labels          map[string]string     `json:"labels,omitempty"`
	Probes          map[string]ProbeFacts `json:"probes,omitempty"`
}

// ProbeFacts are what a probe says of a pod.
type ProbeFacts struct {
	Passing bool   `json:"passing"`
	Failed  bool   `json:"failed,omitempty"` // failureThreshold attempts in a row
	Value   string `json:"value,omitempty"`
	// At is when the answer was asked for.
	At time.Time `json:"at,omitzero"`
}

// pending reports whether neither the thresholds of success nor of failure are reached yet.
func (f ProbeFacts) pending() bool { return !f.Passing && !f.Failed }

// PodBudget is a PodDisruptionBudget.
type PodBudget struct {
	Name     string   `json:"name"`
	Allowed  int      `json:"allowed"` // status.disruptionsAllowed
	Selector Selector `json:"selector"`
}

// Turn is who releases pods of a shared quorum now.
type Turn struct {
	Mine   bool      `json:"mine,omitempty"`
	Holder string    `json:"holder,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Ours reports whether the workload belongs to the Rollout, by UID.
func (w WorkloadFacts) ours(f Facts) bool {
	return w.Controller != nil && w.Controller.UID == f.Rollout.UID
}

// foreign is the controller that forbids a claim; nil: nothing forbids it.
func (w WorkloadFacts) foreign(f Facts) *Owner {
	if w.Controller == nil || w.ours(f) || w.Controller.Gone {
		return nil
	}
	return w.Controller
}

// observed reports whether the status speaks of the newest spec.
func (w WorkloadFacts) observed() bool { return w.ObservedGeneration >= w.Generation }

// ordinals are those of its pods.
func (w *WorkloadFacts) ordinals() ordinal.Set {
	return ordinal.Set{First: w.FirstOrdinal, Reserved: w.Reserved}
}

// kept is how many of the pods the partition keeps old.
func (w WorkloadFacts) kept() int { return min(w.Partition, w.Replicas) }

// podsOf are the pods of a workload. The result is not to be changed.
func (f Facts) podsOf(w WorkloadFacts) []Pod {
	if len(f.Sources) == 0 {
		return f.Pods
	}
	var own []Pod
	for i := range f.Pods {
		if p := &f.Pods[i]; p.Workload == w.UID || p.Workload == "" && f.Target != nil && w.UID == f.Target.UID {
			own = append(own, *p)
		}
	}
	return own
}

// available reports whether a pod is ready: not terminating, ready for minReadySeconds, and all its
// probes pass.
func (f Facts) available(p *Pod, w *WorkloadFacts) bool {
	if !p.Ready || p.Terminating {
		return false
	}
	if w.MinReadySeconds > 0 && f.Now.Sub(p.ReadySince) < time.Duration(w.MinReadySeconds)*time.Second {
		return false
	}
	for _, probe := range p.Probes {
		if !probe.Passing {
			return false
		}
	}
	return true
}

// away reports whether a pod is known not to serve. One that was not probed yet, or whose probe has
// failed less often than its threshold, is neither available nor away.
func (f Facts) away(p *Pod, w *WorkloadFacts) bool {
	if !p.Ready || p.Terminating {
		return true
	}
	for _, probe := range p.Probes {
		if probe.Failed {
			return true
		}
	}
	return w.MinReadySeconds > 0 && f.Now.Sub(p.ReadySince) < time.Duration(w.MinReadySeconds)*time.Second
}

// Available reports whether a pod is ready: not terminating, ready for the minReadySeconds of its
// workload, and all its probes pass.
func (f Facts) Available(p Pod) bool {
	for i := range f.Sources {
		if w := &f.Sources[i]; w.UID == p.Workload {
			return f.available(&p, w)
		}
	}
	return f.Target != nil && f.available(&p, f.Target)
}

// Updated reports whether a pod has the revision that pods are moved to.
func (f Facts) Updated(at Position, p Pod) bool {
	return f.Target != nil && p.Revision == (&judgement{movement{at: at}, f}).revision()
}

// count are the pods of one workload, by what they are.
type count struct {
	pods, terminating   int
	ready               int // of any revision
	updated, good       int // at the revision; and ready too
	old, oldUnavailable int // not at the revision
}

func (f Facts) count(w WorkloadFacts, revision string) count {
	var c count
	own := f.podsOf(w)
	for i := range own {
		p := &own[i]
		c.pods++
		ready := f.available(p, &w)
		if p.Terminating {
			c.terminating++
			continue
		}
		if ready {
			c.ready++
		}
		switch {
		case p.Revision == revision && ready:
			c.updated++
			c.good++
		case p.Revision == revision:
			c.updated++
		default:
			c.old++
			if !ready {
				c.oldUnavailable++
			}
		}
	}
	return c
}

// sourceReplicas is how many replicas the sources have together.
func (f Facts) sourceReplicas() int {
	n := 0
	for _, s := range f.Sources {
		n += s.Replicas
	}
	return n
}

// workloads are target and sources.
func (f Facts) workloads() []WorkloadFacts {
	var all []WorkloadFacts
	if f.Target != nil {
		all = append(all, *f.Target)
	}
	return append(all, f.Sources...)
}
