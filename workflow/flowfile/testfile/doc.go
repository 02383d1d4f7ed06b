// Package testfile reads and executes tests of flows in YAML, from *_test.yaml beside the flows.
//
//	flow: CreateVolume
//	cases:
//	- name: pauses when the disk is full, and takes the volume back
//	  input: {size: 20}
//	  actions:
//	    exec: {output: {id: v-1}}
//	    Format: {fault: DISK_FULL}
//	  do:
//	  - {at: Format, cancel: undo}
//	  expect: {phase: Cancelled, undone: [Volume]}
//	  crash: everywhere
//
// A case starts a run in virtual time, carries out the requests of `do` one by one, each when the run
// is at rest, and compares the end with `expect`. Actions that reach outside of the run are replaced;
// one that is not ends the step with ACTION_NOT_REPLACED. `crash: everywhere` plays the case with a
// crash before and after each save, too; see [workflowtest.Explore].
//
// The bubbles of virtual time are those of testing/synctest, which wants a *testing.T. A program has
// none: the zero T serves, because the package keeps its own record of failures.
package testfile
