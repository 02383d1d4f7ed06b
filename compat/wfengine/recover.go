package wfengine

import (
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/internal/turn"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Recover marks a resource whose flow is interrupted, and reads from it whether the flow should
// continue.
type Recover interface {
	GetResourceRecoverInfo(resource statemachine.StateResource, conf map[define.WFConfKey]string) (recover bool, preStatus statemachine.State)
	CancelResourceRecover(resource statemachine.StateResource, conf map[define.WFConfKey]string) error
	SaveResourceInterruptInfo(resource statemachine.StateResource, conf map[define.WFConfKey]string, reason, message, prevState string) error
}

// DefaultRecover stores reason, message and previous state in annotations of an [IKubeResource].
// The flow continues when the annotation interrupt.recover is true (or T, t, 1).
type DefaultRecover struct{}

// CreateDefaultRecover returns a DefaultRecover.
func CreateDefaultRecover() *DefaultRecover { return &DefaultRecover{} }

// longestNote limits a message in an annotation, in bytes.
const longestNote = 4 << 10

// GetResourceRecoverInfo reads whether the flow should continue, and in which state.
func (*DefaultRecover) GetResourceRecoverInfo(resource statemachine.StateResource, conf map[define.WFConfKey]string) (recover bool, preStatus statemachine.State) {
	kube, ok := resource.(IKubeResource)
	if !ok || kube.GetState() != statemachine.StateInterrupt {
		return false, statemachine.StateNil
	}
	notes := kube.GetResource().GetAnnotations()
	asked, err := strconv.ParseBool(notes[conf[define.WFInterruptToRecover]])
	previous := statemachine.State(notes[conf[define.WFInterruptPrevious]])
	if err != nil || !asked || previous == statemachine.StateNil {
		return false, statemachine.StateNil
	}
	return true, previous
}

// CancelResourceRecover removes the annotations.
func (*DefaultRecover) CancelResourceRecover(resource statemachine.StateResource, conf map[define.WFConfKey]string) error {
	kube, err := kubeOf(resource)
	if err != nil {
		return err
	}
	notes, changed := kube.GetResource().GetAnnotations(), false
	for _, key := range []define.WFConfKey{define.WFInterruptToRecover, define.WFInterruptReason, define.WFInterruptMessage, define.WFInterruptPrevious} {
		if _, there := notes[conf[key]]; there {
			delete(notes, conf[key])
			changed = true
		}
	}
	if !changed {
		return nil
	}
	kube.GetResource().SetAnnotations(notes)
	return kube.Update()
}

// SaveResourceInterruptInfo writes the annotations.
func (*DefaultRecover) SaveResourceInterruptInfo(resource statemachine.StateResource, conf map[define.WFConfKey]string, reason, message, prevState string) error {
	kube, err := kubeOf(resource)
	if err != nil {
		return err
	}
	notes := kube.GetResource().GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[conf[define.WFInterruptToRecover]] = "F"
	notes[conf[define.WFInterruptReason]] = reason
	notes[conf[define.WFInterruptMessage]] = message[:min(len(message), longestNote)]
	notes[conf[define.WFInterruptPrevious]] = prevState
	kube.GetResource().SetAnnotations(notes)
	return kube.Update()
}

func kubeOf(resource statemachine.StateResource) (IKubeResource, error) {
	kube, ok := resource.(IKubeResource)
	if !ok {
		return nil, fmt.Errorf("a %T is no IKubeResource: it needs a Recover of its own", resource)
	}
	return kube, nil
}

// The number of retries after a conflict with another writer, and the pause between them.
const (
	writeTries = 5
	writeDelay = 50 * time.Millisecond
)

// rewrite changes the newest version of a resource, again after a conflict. A missing resource is
// not an error.
func rewrite(resource statemachine.StateResource, do func(newest statemachine.StateResource) error) error {
	for try := 1; ; try++ {
		err := func() (err error) {
			defer turn.Guard(&err)
			newest, err := resource.Fetch()
			if err != nil {
				return err
			}
			return do(newest)
		}()
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err) || try == writeTries:
			return err
		}
		time.Sleep(time.Duration(try) * writeDelay)
	}
}

// CheckRecovery resumes an interrupted flow if the resource asks for it or somebody resumed the
// run itself, and sets the resource back to its former state. It reports whether somebody asked
// for it. A failure is logged, and the next call repeats it.
func (m *WfManager) CheckRecovery(resource statemachine.StateResource) bool {
	if resource.GetState() != statemachine.StateInterrupt {
		return false
	}
	m.mu.Lock()
	recover, log := m.recover, m.Logger.WithValues("namespace", resource.GetNamespace(), "name", resource.GetName())
	m.mu.Unlock()
	conf := m.conf()
	var asked bool
	var previous statemachine.State
	err := func() (err error) {
		defer turn.Guard(&err)
		if recover != nil {
			asked, previous = recover.GetResourceRecoverInfo(resource, conf)
		}
		return nil
	}()
	if err != nil {
		log.Error(err, "whether the flow is to go on could not be read")
		return false
	}
	if !asked {
		if previous, asked = m.resumed(resource); !asked {
			return false
		}
	}
	to := statemachine.StateRunning
	if previous != statemachine.StateNil {
		to = previous
	}
	if previous != statemachine.StateNil && previous != statemachine.StateRebuild {
		flow, err := m.CreateResourceWorkflow(resource)
		if err == nil {
			err = flow.RetryInterruptedStep()
		}
		if err != nil {
			log.Error(err, "the interrupted flow could not be resumed")
			return true
		}
	}
	// The state first: without the annotations, no later call would set it.
	err = rewrite(resource, func(newest statemachine.StateResource) error {
		if newest.GetState() != statemachine.StateInterrupt {
			return nil
		}
		_, err := newest.UpdateState(to)
		return err
	})
	if err != nil {
		log.Error(err, "the state was not written; the flow stays interrupted", "state", to)
		return true
	}
	if recover != nil {
		err = rewrite(resource, func(newest statemachine.StateResource) error { return recover.CancelResourceRecover(newest, conf) })
		if err != nil {
			log.Error(err, "the marks of the interruption were not removed; the next interruption replaces them")
		}
	}
	log.Info("an interrupted flow goes on", "state", to)
	return true
}

// resumed reports whether the run itself was resumed, as pawl resume does, and returns the former
// state of its resource.
func (m *WfManager) resumed(resource statemachine.StateResource) (previous statemachine.State, resumed bool) {
	flow, err := m.CreateResourceWorkflow(resource)
	if err != nil {
		m.Logger.Error(err, "the runs of the resource could not be read")
		return "", false
	}
	found, err := flow.unfinished(flow.background())
	if err != nil || found == nil || found.run.Phase == runtype.Paused && !found.resumed() {
		return "", false
	}
	previous = found.previous()
	return previous, previous != statemachine.StateNil
}
