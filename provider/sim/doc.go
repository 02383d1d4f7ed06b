// Package sim simulates a cloud in memory: a cluster.Provider for tests and for
// demonstrations.
//
//	cloud, err := sim.New(sim.Options{Installation: "demo", Zones: …, Offerings: …})
//	cloud.Create(ctx, want)                                    // the calls of a provider
//	cloud.Inject(sim.Rule{Call: sim.Create, Nth: 2, Do: sim.Lost}) // injected faults
//	cloud.StopVM(id)                                           // changes by others
//	cloud.Calls(), cloud.Mutations(), cloud.All()              // the log and the state
//
// A Cloud is a table of contents: Client, Admin, Nodes, Faults and Log each have a subject and its
// state, and share the lock and the clock of one world.
//
// Nothing runs in the background: a job is stored with its end time, and every
// call first ends the jobs that are over. The same seed and the same calls create
// the same ids. Only Serve, which sends the nodes' heartbeats, needs a goroutine,
// that of its caller.
package sim
