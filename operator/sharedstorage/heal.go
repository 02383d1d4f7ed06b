package sharedstorage

import (
	"github.com/pawl-dev/pawl/workflow"
)

// Healers are what ends a fault by itself, and its limits.
func (o *Operator) Healers() map[faultCode]workflow.Healer { return nil }
