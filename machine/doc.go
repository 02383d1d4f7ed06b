// Package machine moves an object from state to state: stable states rest, transient ones work.
//
//	table := machine.Table[*Cluster]{
//		Name: "cluster", Kind: "demo", Initial: "Init",
//		Any: []machine.Transition[*Cluster]{{Event: "delete", To: "Deleting", When: deleted}},
//		States: map[machine.State]machine.StateSpec[*Cluster]{
//			"Init":        {On: []machine.Transition[*Cluster]{{Event: "create", To: "Creating", Params: creation}}},
//			"Creating":    {Flow: "CreateCluster", Then: "Running"},
//			"Running":     {On: []machine.Transition[*Cluster]{{Event: "resize", To: "Resizing", When: sizeDiffers, Params: size}}},
//			"Resizing":    {Flow: "ResizeCluster", Then: "Running"},
//			"Interrupted": {Rests: true},
//			"Deleting":    {Flow: "DeleteCluster", Then: "Deleted", Else: "Deleting"},
//			"Deleted":     {},
//		},
//	}
//
// Advance is one pass over one object. Anyone may call it at any time:
//
//	lock ─▶ load object, position, run ─▶ Decide ─▶ one act ─▶ outcome
//	                                                 ├ write a position, compare-and-set
//	                                                 ├ start the run of this visit
//	                                                 ├ end the run of an earlier visit
//	                                                 └ call Do
//
// Each visit of a state has a number; the event and the number are the request
// id of its run, so one visit starts one run however often Advance is repeated.
// A run that pauses moves the object to its Else state, and back again when it goes
// on. docs/reference/machines.md has the rules.
package machine
