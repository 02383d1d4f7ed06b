// Package implement_wfengine gives the defaults of wfengine under the path they
// have always had.
package implement_wfengine

import "github.com/pawl-dev/pawl/compat/wfengine"

type (
	// DefaultRecover is that of wfengine.
	DefaultRecover = wfengine.DefaultRecover
	// DefaultWfMetaLoader is that of wfengine.
	DefaultWfMetaLoader = wfengine.DefaultWfMetaLoader
	// DefaultWorkflowHook is that of wfengine.
	DefaultWorkflowHook = wfengine.DefaultWorkflowHook
	// DefaultMementoStorage is that of wfengine.
	DefaultMementoStorage = wfengine.DefaultMementoStorage
)

// Names of what is written.
const (
	WorkFlowJobConfigMapTag = wfengine.WorkFlowJobConfigMapTag
	EventsReasonFormat      = wfengine.EventsReasonFormat
)

// CreateDefaultRecover makes the default Recover.
func CreateDefaultRecover() *DefaultRecover { return wfengine.CreateDefaultRecover() }

// CreateDefaultWfMetaLoader makes the default loader.
func CreateDefaultWfMetaLoader(resourceType string) (wfengine.WfMetaLoader, error) {
	return wfengine.CreateDefaultWfMetaLoader(resourceType)
}

// CreateDefaultWorkflowHook makes the default hook.
func CreateDefaultWorkflowHook(wfRuntime *wfengine.WfRuntime) (wfengine.WfHook, error) {
	return wfengine.CreateDefaultWorkflowHook(wfRuntime)
}

// GetDefaultMementoStorageFactory gives the default storage.
func GetDefaultMementoStorageFactory(resourceType string, enableEvent bool) wfengine.CreateMementoStorageFunc {
	return wfengine.GetDefaultMementoStorageFactory(resourceType, enableEvent)
}
