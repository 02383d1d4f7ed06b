package dbcluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/wfengine"
)

func checkInstall(obj statemachine.StateResource) (*statemachine.Event, error) {
	switch obj.GetState() {
	case statemachine.StateInit, statemachine.StateCreating:
		return statemachine.CreateEvent("Install", nil), nil
	}
	return nil, nil
}

func installMainEnter(obj statemachine.StateResource) error {
	flows, err := GetManager().CreateResourceWorkflow(obj)
	if err != nil {
		return err
	}
	return flows.CommonWorkFlowMainEnter(context.TODO(), obj, "CreateCluster", false, checkInstall)
}

func registerSteps(manager *wfengine.WfManager) {
	manager.RegisterStep(&InitMeta{})
	manager.RegisterStep(&PrepareStorage{})
	manager.RegisterStep(&CreateWriter{})
	manager.RegisterStep(&CreateReaders{})
	manager.RegisterStep(&CreateManager{})
	manager.RegisterStep(&AddToManager{})
	manager.RegisterStep(&UpdateRunningStatus{})
}

// InitMeta sets the defaults of the cluster.
type InitMeta struct{ StepBase }

// DoStep writes the number of readers.
func (s *InitMeta) DoStep(context.Context, logr.Logger) error {
	data := s.Cluster.Object().Data
	if data[keyReaders] != "" {
		return nil
	}
	data[keyReaders] = "1"
	return s.Cluster.Update()
}

// PrepareStorage checks the storage class.
type PrepareStorage struct {
	StepBase
	class string
}

// DoStep interrupts the flow if only a person can help.
func (s *PrepareStorage) DoStep(context.Context, logr.Logger) error {
	if s.class = s.Cluster.Object().Data[keyStorageClass]; s.class == "missing" {
		return wfengine.NewInterruptError("STORAGE_CLASS_MISSING", "there is no storage class of this name: correct "+keyStorageClass)
	}
	return nil
}

// Output passes the class to later steps.
func (s *PrepareStorage) Output(logr.Logger) map[string]interface{} {
	return map[string]interface{}{"storageClass": s.class}
}

// CreateWriter starts the writer.
type CreateWriter struct{ StepBase }

// DoStep waits until the writer is ready.
func (s *CreateWriter) DoStep(ctx context.Context, _ logr.Logger) error {
	return awaitPod(ctx, s.Cluster, "writer")
}

// CreateReaders starts the readers.
type CreateReaders struct{ StepBase }

// DoStep waits until all readers are ready.
func (s *CreateReaders) DoStep(ctx context.Context, _ logr.Logger) error {
	readers, err := strconv.Atoi(s.Cluster.Object().Data[keyReaders])
	if err != nil {
		return wfengine.NewInterruptError("READERS_INVALID", fmt.Sprintf("%s is no number: %v", keyReaders, err))
	}
	for i := range readers {
		if err := awaitPod(ctx, s.Cluster, "reader-"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

// CreateManager starts the cluster manager.
type CreateManager struct{ StepBase }

// DoStep takes as long as the cluster's data say, as a slow step would.
func (s *CreateManager) DoStep(ctx context.Context, logger logr.Logger) error {
	for s.Cluster.Object().Data[keyHold] == "true" {
		logger.Info("the manager is not there yet")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		newest, err := ByName(s.Cluster.GetName(), s.Cluster.GetNamespace())
		if err != nil {
			return err
		}
		s.Cluster = newest
	}
	return awaitPod(ctx, s.Cluster, "manager")
}

// AddToManager registers the instances with the manager.
type AddToManager struct {
	StepBase
	class string
}

// Init stores the output of PrepareStorage.
func (s *AddToManager) Init(ctx map[string]interface{}, logger logr.Logger) error {
	s.class, _ = ctx["storageClass"].(string)
	return s.StepBase.Init(ctx, logger)
}

// DoStep writes the members.
func (s *AddToManager) DoStep(ctx context.Context, _ logr.Logger) error {
	members, err := pods(ctx, s.Cluster)
	if err != nil {
		return err
	}
	s.Cluster.Object().Data[keyMembers] = fmt.Sprintf("%s on %s", strings.Join(members, " "), s.class)
	return s.Cluster.Update()
}

// UpdateRunningStatus ends the flow.
type UpdateRunningStatus struct{ StepBase }

// DoStep writes the next state.
func (s *UpdateRunningStatus) DoStep(context.Context, logr.Logger) error {
	_, err := s.Cluster.UpdateState(statemachine.StateRunning)
	return err
}
