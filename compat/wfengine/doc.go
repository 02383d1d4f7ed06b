// Package wfengine is the workflow engine of the PolarDB Stack workflow library, implemented with
// Pawl's: it runs flow files and steps of that library, and has the calls that its operators make
// in Reconcile.
//
//	manager, err := wfengine.CreateWfManager("dbcluster", "./workflow", wfengine.CreateDefaultWfMetaLoader,
//		wfengine.CreateDefaultWorkflowHook, wfengine.GetDefaultMementoStorageFactory("dbcluster", false))
//	manager.RegisterRecover(wfengine.CreateDefaultRecover())
//	manager.RegisterStep(&InitMeta{})
//
//	flow, err := manager.CreateResourceWorkflow(resource)
//	err = flow.CommonWorkFlowMainEnter(ctx, resource, "CreateCluster", false, checkInstall)
//
// A call works on the flow as far as possible. It returns nil when the flow has ended or waits,
// the error of a step that will be retried later, or an InterruptError. Nothing runs between two
// calls, so Reconcile must be called again after an error.
//
// The implementation of the calls:
//
//	ResourceWorkflow ─▶ workflow.Engine.Advance ─▶ Store: ConfigMaps (kube/runstore), a storage of yours, or memory
//	      │                     └▶ StepAction, through flowfile/classic.Adapt
//	      └▶ Recover: what the resource shows of an interruption
package wfengine

import (
	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/implement"
)

type (
	// MetaDataLoader is another name of WfMetaLoader.
	MetaDataLoader = WfMetaLoader
	// MementoStorage is another name of WfRuntimeMementoStorage.
	MementoStorage = WfRuntimeMementoStorage
	// KubeResource is that of implement.
	KubeResource = implement.KubeResource
	// IKubeResource is that of implement.
	IKubeResource = implement.IKubeResource
	// InterruptError is that of define.
	InterruptError = define.InterruptError
	// WaitingError is that of define.
	WaitingError = define.WaitingError
	// WFConfKey is that of define.
	WFConfKey = define.WFConfKey
)

// NewInterruptError stops a flow until someone lets it go on.
func NewInterruptError(reason, message string) error {
	return define.NewInterruptError(reason, message)
}

// NewWaitingError lets a flow wait at its step, without a failure.
func NewWaitingError() error { return define.NewWaitingError() }
