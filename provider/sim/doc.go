// Package sim is a cloud in memory: a cluster.Provider to test with, and to
// show Pawl without one.
//
//	cloud, err := sim.New(sim.Options{Installation: "demo", Zones: …, Offerings: …})
//	cloud.Create(ctx, want)                                    // what a provider does
//	cloud.Inject(sim.Rule{Call: sim.Create, Nth: 2, Do: sim.Lost}) // what can go wrong
//	cloud.StopVM(id)                                           // what others do behind our back
//	cloud.Calls(), cloud.Deeds(), cloud.All()                  // what happened, and what is there
//
// Nothing runs by itself: what ends later is stored with its time, and every
// call first settles what the clock says is over. The same seed and the same
// calls give the same ids. Only Serve, which lets nodes call home, takes a
// goroutine, that of its caller.
package sim
