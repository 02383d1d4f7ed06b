// Package dbcluster is an operator in the style of the PolarDB Stack workflow
// library: one machine and one manager for all clusters of the process.
package dbcluster

import (
	"fmt"
	"sync"

	wfengineimpl "github.com/pawl-dev/pawl/compat/implement/wfengine"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/wfengine"
)

// ResourceType names the clusters, and the folder of their flows.
const ResourceType = "dbcluster"

// FlowDir holds a folder of flows for each type.
var FlowDir = "./workflow"

var (
	machineOnce sync.Once
	machine     *statemachine.StateMachine

	managerOnce sync.Once
	manager     *wfengine.WfManager
)

// GetMachine returns the machine of clusters.
func GetMachine() *statemachine.StateMachine {
	machineOnce.Do(func() {
		machine = statemachine.CreateStateMachineInstance(ResourceType)
		machine.RegisterStableState(statemachine.StateRunning, statemachine.StateInterrupt, statemachine.StateInit)
		machine.RegisterStateTranslateMainEnter(statemachine.StateInit, checkInstall, statemachine.StateCreating, installMainEnter)
	})
	return machine
}

// GetManager returns the manager of the flows of clusters.
func GetManager() *wfengine.WfManager {
	managerOnce.Do(func() {
		var err error
		manager, err = wfengine.CreateWfManager(
			ResourceType,
			FlowDir,
			wfengineimpl.CreateDefaultWfMetaLoader,
			wfengineimpl.CreateDefaultWorkflowHook,
			wfengineimpl.GetDefaultMementoStorageFactory(ResourceType, true),
		)
		if err != nil {
			panic(fmt.Sprintf("the manager of %s: %v", ResourceType, err))
		}
		manager.RegisterRecover(wfengineimpl.CreateDefaultRecover())
		registerSteps(manager)
	})
	return manager
}

// Pass is the body of Reconcile for a cluster.
func Pass(cluster *Resource) error {
	if GetManager().CheckRecovery(cluster) {
		return nil // the changed state is another event
	}
	return GetMachine().DoStateMainEnter(cluster)
}
