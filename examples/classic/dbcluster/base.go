package dbcluster

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/wfengine"
)

// StepBase is the base of all steps of clusters: Init reads the cluster.
type StepBase struct {
	wfengine.StepAction
	Cluster *Resource
}

// Init reads the cluster that the flow works on.
func (s *StepBase) Init(ctx map[string]interface{}, logger logr.Logger) error {
	name, _ := ctx[define.DefaultWfConf[define.WorkFlowResourceName]].(string)
	namespace, _ := ctx[define.DefaultWfConf[define.WorkFlowResourceNameSpace]].(string)
	cluster, err := ByName(name, namespace)
	if err != nil {
		return err
	}
	s.Cluster = cluster
	logger.Info("step of the cluster", "cluster", name)
	return nil
}

// DoStep is implemented by each step.
func (s *StepBase) DoStep(context.Context, logr.Logger) error { panic("a step without DoStep") }

// Output passes nothing to later steps.
func (s *StepBase) Output(logr.Logger) map[string]interface{} { return map[string]interface{}{} }
