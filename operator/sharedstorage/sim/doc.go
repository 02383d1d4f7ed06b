// Package sim is the world below the shared-storage operator, in memory: nodes,
// instances, engines, volumes and cluster managers, behind the four ports.
//
//	w := sim.New(sim.Options{Times: sim.Times{Create: 4 * time.Second, Start: 2 * time.Second}})
//	ports := w.Ports()
//	w.Inject(sim.Rule{Method: "Promote", Nth: 1, Do: sim.Lost}) // applied, and the answer is lost
//	w.LoseNode("node-2")
//	w.KillEngine(ref, "blue-1")
//
// Its clock is Options.Now: under testing/synctest a day passes at once. What
// happens by itself (an instance comes up, a manager fails over) is worked out
// when somebody looks, in the order of its time.
//
// Calls is the log of what was asked. Violations is what must never be: two
// engines that accept writes, an instance made twice, a promotion that loses
// what was answered, a grant that falls.
package sim
