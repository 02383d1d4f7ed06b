package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/workflow"
)

// The annotations that report an interruption and end it.
const (
	interruptRecover  = "interrupt.recover"
	interruptReason   = "interrupt.reason"
	interruptMessage  = "interrupt.message"
	interruptPrevious = "interrupt.previous.status"
	cancelledKey      = "cancelled"
)

// mpdInterrupt is the name of the state Interrupted in MPDCluster.
const mpdInterrupt = "Interrupt"

// interrupted returns the changes of a cluster's annotations for its state; an empty value removes
// one. has are the present annotations. interrupt.recover is F until somebody sets it; a value
// from before the interruption does not count.
func interrupted(c *sharedstorage.Cluster, was string, has map[string]string) map[string]string {
	s := &c.Status
	if s.State != string(sharedstorage.Interrupted) {
		none := map[string]string{interruptReason: "", interruptMessage: "", interruptPrevious: ""}
		if !truthy(has[interruptRecover]) {
			none[interruptRecover] = ""
		}
		if s.Reason != "" { // the spec cannot be carried out, such as an unknown class: there is nothing to recover
			none[interruptReason], none[interruptMessage] = s.Reason, cmp.Or(s.Message, "-")
		}
		return none
	}
	all := map[string]string{interruptReason: cmp.Or(s.Reason, "Interrupted"), interruptMessage: cmp.Or(s.Message, "-")}
	if previous := stateOf(s, s.PreviousState); s.PreviousState != string(sharedstorage.Init) || has[interruptPrevious] == "" {
		all[interruptPrevious] = previous // otherwise an earlier operator wrote it, and it says more than we know
	}
	if was != mpdInterrupt || has[interruptRecover] == "" {
		all[interruptRecover] = "F"
	}
	return all
}

// applyInterruptRequests carries out interrupt.recover and cancelled, and then removes them.
func (s *mpdServer) applyInterruptRequests(ctx context.Context, c *sharedstorage.Cluster, ref control.Ref) error {
	by := workflow.Actor{Name: "annotation"}
	run := ""
	if c.Status.Run != nil {
		run = c.Status.Run.ID
	}
	if value := c.Annotations[interruptRecover]; truthy(value) && c.Status.State == string(sharedstorage.Interrupted) {
		var err error
		if run != "" {
			err = s.engine.Resume(ctx, run, workflow.FromFailed, "", by)
		} else {
			err = s.operator.Resume(ctx, ref)
		}
		if err != nil && fault.Of(err).Class != fault.Invalid {
			return err
		}
		if run == "" { // the run that has written the object
			if c, err = s.store.Load(ctx, c.Ref); err != nil {
				return err
			}
		}
		if value := c.Annotations[interruptRecover]; value != "" {
			if err := s.store.Annotate(ctx, c, interruptRecover, value, ""); err != nil {
				return err
			}
		}
	}
	value := c.Annotations[cancelledKey]
	if !truthy(value) {
		return nil
	}
	if run != "" {
		if err := s.engine.Cancel(ctx, run, "", false, by); err != nil && fault.Of(err).Class != fault.Invalid {
			return err
		}
	}
	return s.store.Annotate(ctx, c, cancelledKey, value, "")
}

// takeOver reads the status that an earlier operator has left on an interrupted cluster. The
// cluster stays interrupted until somebody asks to continue; then the operator carries out the
// spec from the present state. All other clusters are new to this operator.
func (h *MPDClusterStore) takeOver(ctx context.Context, obj *mpd.MPDCluster) (s v1alpha1.SharedStorageClusterStatus, err error) {
	if obj.Status.ClusterStatus != mpdInterrupt {
		return s, nil
	}
	left := &corev1.ConfigMap{}
	err = h.objects.Live.Get(ctx, client.ObjectKey{Namespace: obj.Namespace, Name: obj.Name + "-workflow"}, left)
	if err != nil && !apierrors.IsNotFound(err) {
		return s, err
	}
	at := machine.Position{State: sharedstorage.Interrupted, Previous: sharedstorage.Init, Rest: sharedstorage.Init, Visit: 1, Since: obj.CreationTimestamp.UTC(), Held: true}
	at.Code = sharedstorage.Code(obj.Annotations[interruptReason])
	kind, known := fault.Lookup(string(at.Code))
	if !known {
		kind = workflow.PausedByPerson
		at.Code = kind.Code
	}
	at.Reason, at.Message = kind.Reason(), fmt.Sprintf("%s was interrupted by the operator before this one", cmp.Or(obj.Annotations[interruptPrevious], "it"))
	for _, more := range []string{openRun(left.Data), obj.Annotations[interruptMessage]} {
		if more != "" {
			at.Message += ": " + more
		}
	}
	s.State, s.PreviousState, s.Reason, s.Message, s.Visit = string(at.State), string(at.Previous), at.Reason, at.Message, at.Visit
	s.Position, err = json.Marshal(at)
	return s, err
}

// openRun returns the state of the newest run that the PolarDB Stack engine has not completed;
// empty if there is none, or none that can be read.
func openRun(records map[string]string) string {
	number := func(key string) int {
		n, err := strconv.Atoi(key[:max(strings.IndexByte(key, '-'), 0)])
		if err != nil {
			return -1
		}
		return n
	}
	keys := slices.SortedFunc(maps.Keys(records), func(a, b string) int { return cmp.Or(number(b)-number(a), strings.Compare(a, b)) })
	for _, key := range keys {
		var r struct {
			FlowName     string `json:"flowName"`
			FlowStatus   string `json:"flowStatus"`
			ErrorMessage string `json:"errorMessage"`
			RunningSteps []struct {
				StepName   string `json:"StepName"`
				StepStatus string `json:"stepStatus"`
			} `json:"runningSteps"`
		}
		if number(key) < 0 || json.Unmarshal([]byte(records[key]), &r) != nil || r.FlowStatus == "" || r.FlowStatus == "completed" {
			continue
		}
		said := "flow " + r.FlowName
		for _, step := range r.RunningSteps {
			if step.StepStatus != "completed" {
				said += " at step " + step.StepName
				break
			}
		}
		if r.ErrorMessage != "" {
			said += " (" + r.ErrorMessage + ")"
		}
		return said
	}
	return ""
}
