// Package workflowtest is a kit for tests of flows: an engine over the store in memory, in virtual
// time, with replaced steps, raised faults and crashes.
//
//	func TestCreate(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := workflowtest.New(t, workflowtest.Options{Flows: []workflow.Flow{create}})
//			env.Fault("Server", cloudFull.Errorf("no room"))
//			run := env.Run("Create", map[string]any{"size": 20})
//			run.WantFault("CLOUD_FULL", "Server")
//			run.Cancel(runtype.Undo)
//			run.WantUndone("Volume")
//		})
//	}
//
// Run, Signal, Resume and the other calls return when the run is at rest: it has ended, it is
// paused, or it waits for something that only the test can bring, such as a signal. Timers, retries
// and healers before that cost no time.
//
// [EveryCrash] plays a test again and again, with a crash before and after each save, and reports
// every play that ends otherwise than the play without a crash.
package workflowtest
