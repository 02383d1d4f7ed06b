// Package implement_wfengine has the defaults of wfengine under their classic import path.
package implement_wfengine

import "github.com/pawl-dev/pawl/compat/wfengine"

type (
	// DefaultRecover is wfengine.DefaultRecover.
	DefaultRecover = wfengine.DefaultRecover
	// DefaultWfMetaLoader is wfengine.DefaultWfMetaLoader.
	DefaultWfMetaLoader = wfengine.DefaultWfMetaLoader
	// DefaultWorkflowHook is wfengine.DefaultWorkflowHook.
	DefaultWorkflowHook = wfengine.DefaultWorkflowHook
	// DefaultMementoStorage is wfengine.DefaultMementoStorage.
	DefaultMementoStorage = wfengine.DefaultMementoStorage
)

// Names in Kubernetes objects.
const (
	WorkFlowJobConfigMapTag = wfengine.WorkFlowJobConfigMapTag
	EventsReasonFormat      = wfengine.EventsReasonFormat
)

// CreateDefaultRecover returns the default Recover.
func CreateDefaultRecover() *DefaultRecover { return wfengine.CreateDefaultRecover() }

// CreateDefaultWfMetaLoader returns the default loader.
func CreateDefaultWfMetaLoader(resourceType string) (wfengine.WfMetaLoader, error) {
	return wfengine.CreateDefaultWfMetaLoader(resourceType)
}

// CreateDefaultWorkflowHook returns the default hook.
func CreateDefaultWorkflowHook(wfRuntime *wfengine.WfRuntime) (wfengine.WfHook, error) {
	return wfengine.CreateDefaultWorkflowHook(wfRuntime)
}

// GetDefaultMementoStorageFactory returns the factory of the default storage.
func GetDefaultMementoStorageFactory(resourceType string, enableEvent bool) wfengine.CreateMementoStorageFunc {
	return wfengine.GetDefaultMementoStorageFactory(resourceType, enableEvent)
}
