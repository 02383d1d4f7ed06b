// Package sim simulates the ports of the shared-storage operator in memory: nodes, instances,
// engines, volumes and cluster managers.
//
//	w := sim.New(sim.Options{Times: sim.Times{Create: 4 * time.Second, Start: 2 * time.Second}})
//	ports := w.Ports()
//	w.Inject(sim.Rule{Method: "Promote", Nth: 1, Do: sim.Lost}) // applied, and the answer is lost
//	w.LoseNode("node-2")
//	w.KillEngine(ref, "blue-1")
//
// Its clock is Options.Now: under testing/synctest a day passes at once. What happens without a
// call (an instance starts, a manager fails over) is computed at the next call, in the order of
// its time.
//
// Calls is the log of all calls. Violations lists what must never happen: two engines that accept
// writes, an instance created twice, a promotion that loses answered commits, an epoch that falls.
package sim
