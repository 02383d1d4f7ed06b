// Package driver runs machines over the objects of control.Objects: what an operator is on Kubernetes, for objects of our own store.
//
//	bell := &driver.Bell{}
//	engine, err := workflow.New(store, flows, workflow.Options{
//		Hooks:  []workflow.Hook{bell.Hook()},       // runs that end or pause wake their objects
//		Object: driver.Object(objects),             // conditions of waits read the object
//	})
//	d, err := driver.New(driver.Options{Objects: objects, Engine: engine, Bell: bell, Machines: machines, Actions: actions})
//	err = d.Serve(ctx) // beside engine.Serve(ctx)
//
// One controller for each kind passes its objects through Machine.Pass:
//
//	Feed ──asked, or a fact changed──▶ key ──▶ Pass ──▶ status, written once and last
//	Bell ──a run ended, paused, went on─▶ │                 │
//	                                      └── looks ◀───────┘ observations of a resting object
//	                                            └──▶ status.observed.<name>, when it changed
//
// What the driver keeps in an object's status:
//
//	state        where the object stands
//	machine      its position (machine.Position), and the old spec if the machine reads it
//	run          id, phase and step of the run of this visit
//	conditions   Ready and Progressing
//	fault        code, title, message and remedy of what holds it up
//	observed     the facts of observations
//
// A machine with a final state holds its objects with the finalizer
// pawl.dev/machine: deletion passes through the table, and the object is gone
// when it has come to a final state.
package driver
