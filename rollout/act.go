package rollout

import "context"

// Workload is a workload that a rollout changes.
type Workload interface {
	// Observe returns the object and its pods, read once.
	Observe(ctx context.Context) (Facts, error)
	// Apply does one idempotent, conditional write.
	Apply(ctx context.Context, a Act) error
}

// Act is one write: a patch of one workload, or the eviction or deletion of one pod. A field that is
// nil or empty stays as it is.
type Act struct {
	// Workload is the UID of the workload; the write does nothing to one with another UID.
	Workload string `json:"workload"`
	Name     string `json:"name,omitempty"`
	Kind     Kind   `json:"kind,omitempty"`
	// Generation is that of the facts: the write is refused when the spec has changed since.
	Generation int64 `json:"generation,omitempty"`

	Claim ClaimChange `json:"claim,omitempty"`
	// Template is the revision whose template is written.
	Template  string `json:"template,omitempty"`
	Replicas  *int   `json:"replicas,omitempty"`
	Partition *int   `json:"partition,omitempty"` // HoldAll: the full hold of the kind
	Paused    *bool  `json:"paused,omitempty"`
	// UpdateType is RollingUpdate or OnDelete.
	UpdateType string `json:"updateType,omitempty"`
	// Held sets or removes the label that the admission rule matches.
	Held *bool `json:"held,omitempty"`
	// First are the pods that a workload which counts pods moves before the others.
	First []string `json:"first,omitempty"`
	// Strategy is the update strategy that the workload had: what the rollout changed of it is put back.
	// Partition, Paused and UpdateType are written over it.
	Strategy string `json:"strategy,omitempty"`
	// Reserve are ordinals that an Advanced StatefulSet skips from now on.
	Reserve []string `json:"reserve,omitempty"`

	// Evict and Delete are one pod, instead of all of the above. Evict respects the budgets of
	// Kubernetes; Delete tests the pod's UID and resourceVersion.
	Evict  *PodRef `json:"evict,omitempty"`
	Delete *PodRef `json:"delete,omitempty"`

	Why string `json:"why,omitempty"`
}

// ClaimChange takes or releases the controller reference and the anchor, both in one write.
type ClaimChange string

const (
	TakeClaim    ClaimChange = "take"
	ReleaseClaim ClaimChange = "release"
)

// PodRef is one pod with what its deletion tests.
type PodRef struct {
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

func (w WorkloadFacts) act(why string) Act {
	return Act{Workload: w.UID, Name: w.Name, Kind: w.Kind, Generation: w.Generation, Why: why}
}
