package servertest

import "github.com/pawl-dev/pawl/machine/driver"

// Planning returns the served kinds of a server: demo, with this plan.
func Planning(plan driver.PlanFunc) func() ([]driver.ServedKind, error) {
	return func() ([]driver.ServedKind, error) { return []driver.ServedKind{{Kind: "demo", Plan: plan}}, nil }
}
