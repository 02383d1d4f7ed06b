package clusters_test

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// wishes change the spec.
var wishes = map[string]func(l *life, a int) string{
	"storage":   func(_ *life, a int) string { return fmt.Sprintf(`{"processCounts":{"storage":%d}}`, 3+a%4) },
	"log":       func(_ *life, a int) string { return fmt.Sprintf(`{"processCounts":{"log":%d}}`, 4+a%3) },
	"stateless": func(_ *life, a int) string { return fmt.Sprintf(`{"processCounts":{"stateless":%d}}`, 4+a%3) },
	"knob": func(_ *life, a int) string {
		return fmt.Sprintf(`{"processes":{"general":{"customParameters":["knob_x=%d"]}}}`, a%3)
	},
	"logs":      func(_ *life, a int) string { return fmt.Sprintf(`{"databaseConfiguration":{"logs":%d}}`, 3+a%2) },
	"resolvers": func(_ *life, a int) string { return fmt.Sprintf(`{"databaseConfiguration":{"resolvers":%d}}`, 1+a%2) },
	"redundancy": func(_ *life, a int) string {
		return fmt.Sprintf(`{"databaseConfiguration":{"redundancy_mode":%q}}`, []string{"double", "single", "triple"}[a%3])
	},
	"patch":     func(_ *life, a int) string { return fmt.Sprintf(`{"version":%q}`, []string{"7.3.69", "7.3.79"}[a%2]) },
	"upgrade":   func(*life, int) string { return `{"version":"7.4.6"}` },
	"downgrade": func(*life, int) string { return `{"version":"7.3.69"}` }, // refused once it runs 7.4
	"tls":       func(_ *life, a int) string { return fmt.Sprintf(`{"mainContainer":{"enableTls":%t}}`, a%2 == 0) },
	"dns":       func(_ *life, a int) string { return fmt.Sprintf(`{"routing":{"useDNSInClusterFile":%t}}`, a%2 == 1) },
	"image":     func(_ *life, a int) string { return fmt.Sprintf(`{"imageType":%q}`, []string{"split", "unified"}[a%2]) },
	"remove": func(l *life, a int) string {
		groups := l.cluster().Status.ProcessGroups
		if len(groups) == 0 {
			return `{}`
		}
		return fmt.Sprintf(`{"processGroupsToRemove":[%q]}`, groups[a%len(groups)].ProcessGroupID)
	},
	"density": func(_ *life, a int) string { return fmt.Sprintf(`{"storageServersPerPod":%d}`, 1+a%2) },
	"label": func(_ *life, a int) string {
		return fmt.Sprintf(`{"labels":{"resourceLabels":{"team":"t%d","foundationdb.org/fdb-cluster-name":"main"}}}`, a%3)
	},
	"strategy": func(_ *life, a int) string {
		return fmt.Sprintf(`{"automationOptions":{"podUpdateStrategy":%q}}`, []string{"ReplaceTransactionSystem", "Replace", "Delete"}[a%3])
	},
	"deletion": func(_ *life, a int) string {
		return fmt.Sprintf(`{"automationOptions":{"deletionMode":%q,"removalMode":%q}}`, []string{"Zone", "ProcessGroup"}[a%2], []string{"Zone", "ProcessGroup", "All"}[a%3])
	},
	"maintenance": func(_ *life, a int) string {
		return fmt.Sprintf(`{"automationOptions":{"maintenanceModeOptions":{"UseMaintenanceModeChecker":%t,"resetMaintenanceMode":true}}}`, a%2 == 0)
	},
	"locks": func(l *life, a int) string {
		if l.locks {
			return `{}`
		}
		return fmt.Sprintf(`{"lockOptions":{"disableLocks":%t}}`, a%2 == 0)
	},
	"prefix": func(l *life, a int) string {
		prefix := []string{"", "one", "two"}[a%3]
		if l.locks {
			prefix = []string{"zero", "one", "two"}[a%3]
			l.restart(prefix)
		}
		return fmt.Sprintf(`{"processGroupIDPrefix":%q}`, prefix)
	},
	"buggify": (*life).buggify,
	"taints": func(_ *life, a int) string {
		return []string{`{"automationOptions":{"replacements":{"taintReplacementOptions":[{"key":"example.com/worn","durationInSeconds":60}]}}}`, `{"automationOptions":{"replacements":{"taintReplacementOptions":null}}}`}[a%2]
	},
	"service": func(_ *life, a int) string {
		return fmt.Sprintf(`{"routing":{"publicIPSource":%q}}`, []string{"pod", "service"}[a%2])
	},
	"localities": func(_ *life, a int) string {
		return fmt.Sprintf(`{"automationOptions":{"useLocalitiesForExclusion":%t}}`, a%2 == 1)
	},
	"cpu": func(_ *life, a int) string {
		return fmt.Sprintf(`{"processes":{"general":{"podTemplate":{"spec":{"containers":[{"name":"foundationdb","resources":{"requests":{"cpu":"%d"}}}]}}}}}`, 1+a%3)
	},
	"skip": func(_ *life, a int) string { return fmt.Sprintf(`{"skip":%t}`, a%2 == 0) },
}

// lots are how long faults last.
var lots = []time.Duration{20 * time.Second, time.Minute, 3 * time.Minute, 15 * time.Minute}

// accidents are what happens to the world; how long they last the second number says.
var accidents = map[string]func(l *life, a int, long time.Duration){
	"conflict": func(l *life, _ int, long time.Duration) { l.Inject(sim.Fault{Kind: sim.FaultConflict, For: long}) },
	"unavailable": func(l *life, a int, long time.Duration) {
		l.Inject(sim.Fault{Kind: sim.FaultUnavailable, Verb: verbs[a/2%len(verbs)], Before: a%2 == 0, For: long})
	},
	"stale": func(l *life, a int, long time.Duration) {
		l.Inject(sim.Fault{Kind: sim.FaultStaleList, Object: []string{"", "Pod", "PersistentVolumeClaim", "Service"}[a%4], Lag: []time.Duration{2 * time.Second, 10 * time.Second, 40 * time.Second}[a%3], For: long})
	},
	"quota": func(l *life, _ int, long time.Duration) { l.Inject(sim.Fault{Kind: sim.FaultQuota, For: long}) },
	"refuse": func(l *life, a int, long time.Duration) {
		l.Inject(sim.Fault{Kind: sim.FaultRefused, Object: []string{"Pod", "PersistentVolumeClaim", "Service", "ConfigMap"}[a%4], For: long})
	},
	"unbound": func(l *life, _ int, long time.Duration) { l.Inject(sim.Fault{Kind: sim.FaultClaimUnbound, For: long}) },
	"stuck":   func(l *life, _ int, long time.Duration) { l.Inject(sim.Fault{Kind: sim.FaultClaimStuck, For: long}) },
	"deaf":    func(l *life, _ int, long time.Duration) { l.Inject(sim.Fault{Kind: sim.FaultSidecarSilent, For: long}) },
	"events":  func(l *life, _ int, long time.Duration) { l.Inject(sim.Fault{Kind: sim.FaultEventLost, For: long}) },

	"lose": func(l *life, a int, _ time.Duration) {
		l.back()
		l.lost = l.nodeOfPod(a)
		l.LoseNode(l.lost)
	},
	"back":   func(l *life, _ int, _ time.Duration) { l.back() },
	"cordon": func(l *life, a int, _ time.Duration) { l.Cordon(sim.NodeName(a%12), true) },
	"uncordon": func(l *life, a int, _ time.Duration) {
		l.Cordon(sim.NodeName(a%12), false)
	},
	"evict":  func(l *life, a int, _ time.Duration) { l.Evict(namespace, l.podName(a)) },
	"failed": func(l *life, a int, _ time.Duration) { l.FailPod(namespace, l.podName(a)) },
	"crash":  func(l *life, a int, _ time.Duration) { l.Crash(namespace, l.podName(a), 1) },
	coordinatorsCrash: func(l *life, a int, _ time.Duration) {
		l.crashCoordinators(len(l.Cluster().Connection().Coordinators)/2 + 1 + a%2)
	},

	"late": func(l *life, a int, long time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusLate, Takes: time.Duration(5+a%60) * time.Second, For: long})
	},
	"old": func(l *life, _ int, _ time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusStale, For: 10 * time.Second})
	},
	"partial": func(l *life, _ int, long time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusPartial, For: long})
	},
	"doubled": func(l *life, _ int, long time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStatusDoubled, For: long})
	},
	"refusal": func(l *life, a int, _ time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultCommandRefused, Command: commands[a%len(commands)]})
	},
	"lostreply": func(l *life, a int, _ time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultReplyLost, Command: commands[a%len(commands)]})
	},
	"timeout": func(l *life, a int, _ time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultTimedOut, Command: commands[a%len(commands)], Before: a/len(commands)%2 == 0})
	},
	"unknown": func(l *life, a int, _ time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultCommitUnknown, Before: a%2 == 0})
	},
	"partition": func(l *life, a int, long time.Duration) {
		if c := l.Cluster().Connection().Coordinators; len(c) > 0 {
			l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultPartition, Address: c[a%len(c)], For: long})
		}
	},
	"unmoved": func(l *life, _ int, long time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStuckMovement, For: long})
	},
	"again": func(l *life, _ int, _ time.Duration) {
		l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultSecondRecovery})
	},
	"lag": func(l *life, a int, _ time.Duration) {
		l.Cluster().SetLoad(fdbsim.Load{DataLag: time.Duration(a%2) * 2 * time.Minute, StorageQueue: int64(a%3) << 28})
	},
	"oldclient": func(l *life, a int, _ time.Duration) {
		if a%2 == 0 {
			l.Cluster().Connect(fdbsim.Client{Address: "192.0.2.9:4000", LogGroup: "old", Versions: versionsOf(l.t, "7.1.67", "7.3.69")})
		} else {
			l.Cluster().Disconnect("192.0.2.9:4000")
		}
	},

	"die":    func(l *life, a int, _ time.Duration) { l.strikes(1+a/2, a%2 == 1, false, 0) },
	"freeze": func(l *life, a int, long time.Duration) { l.strikes(1+a, false, true, long) },
	"turn":   func(l *life, _ int, _ time.Duration) { l.restart(l.owner) },
	"clock":  func(l *life, a int, _ time.Duration) { l.skew = time.Duration(a%5-2) * time.Minute },
	"slow":   func(l *life, a int, _ time.Duration) { l.slows([]time.Duration{10, -10, 100}[a%3]) },

	"taint":   func(l *life, a int, _ time.Duration) { l.Taint(sim.NodeName(a%12), corev1.Taint{Key: worn}) },
	"untaint": func(l *life, a int, _ time.Duration) { l.Untaint(sim.NodeName(a%12), worn) },

	"rival": func(l *life, a int, _ time.Duration) { l.rival(time.Duration(1+a%10) * time.Minute) },
	"deny": func(l *life, a int, _ time.Duration) {
		if keys := fdb.Keys(""); a%2 == 0 {
			commits(l.Cluster(), fdb.Set(keys.Denied(l.owner), []byte(l.owner)))
		} else {
			commits(l.Cluster(), fdb.Clear(keys.DenyList()))
		}
	},
}

// worn is the key of the taint of a node.
const worn = "example.com/worn"

// slows lets the operator's clock go wrong by one part of so many; a clock that is ahead is slow from then on.
func (l *life) slows(part time.Duration) {
	l.skew += l.drift()
	l.slow, l.slowSince = part, l.Now()
}

// drift is what the clock has gone wrong by since it does. Beside other operators it is within half of the lock's
// time, without which a lock is worth nothing.
func (l *life) drift() time.Duration {
	if l.slow == 0 {
		return 0
	}
	drift := -l.Now().Sub(l.slowSince) / l.slow
	if l.locks {
		const most = 5 * time.Minute
		drift = min(max(drift, -most-l.skew), most-l.skew)
	}
	return drift
}

// commits writes keys as a person does. It reports whether the database has taken them.
func commits(c *fdbsim.Cluster, writes ...fdb.Write) bool {
	tx := c.Transaction()
	for _, w := range writes {
		tx.Write(w)
	}
	return tx.Commit() == nil
}

// rival takes the lock, if it is free, as another operator does.
func (l *life) rival(long time.Duration) {
	tx, key := l.Cluster().Transaction(), fdb.Keys("").Global()
	value, _, err := tx.Get(key)
	if held := fdb.DecodeLock(value); err != nil || held.Err != nil || held.Record != nil && held.Record.Valid(l.Now()) {
		return
	}
	tx.Write(fdb.Set(key, fdb.EncodeLock(lock.Record{Owner: "rival", Start: l.Now(), End: l.Now().Add(long)})))
	_ = tx.Commit()
}

// harms lets a pod that is deleted because of buggify go as by an accident: such harm is asked for, and is not judged.
func (l *life) harms() {
	l.Before(func(e sim.Effect) error {
		if e.Verb != "Delete" || e.Kind != "Pod" {
			return nil
		}
		spec := l.cluster().Spec
		for _, pod := range l.podList() {
			id, err := fdb.ParseGroupID(pod.Labels[foundationdb.GroupLabel])
			if pod.Name == e.Name && err == nil && foundationdb.BuggifyDiffers(spec, id, &pod) != "" {
				l.DeletePod(namespace, pod.Name)
			}
		}
		return nil
	})
}

// buggify does harm to a group, or ends all harm. What is no coordinator by its IP may stop.
func (l *life) buggify(a int) string {
	pod, _ := l.victim(a)
	groups := l.cluster().Status.ProcessGroups
	if pod == "" || len(groups) == 0 {
		return `{}`
	}
	var victim, one string
	for _, p := range l.podList() {
		if p.Name == pod {
			victim = p.Labels[foundationdb.GroupLabel]
		}
	}
	one = string(groups[a%len(groups)].ProcessGroupID)
	byIP := slices.ContainsFunc(l.Cluster().Connection().Coordinators, func(c fdb.Address) bool {
		_, err := netip.ParseAddr(c.Host)
		return err == nil
	})
	switch a % 8 {
	case 0:
		return fmt.Sprintf(`{"buggify":{"noSchedule":[%q]}}`, victim)
	case 1:
		return fmt.Sprintf(`{"buggify":{"crashLoopContainers":[{"containerName":"foundationdb","targets":[%q]}]}}`, victim)
	case 2:
		return fmt.Sprintf(`{"buggify":{"crashLoopContainers":[{"containerName":"foundationdb-kubernetes-sidecar","targets":[%q]}]}}`, victim)
	case 3:
		return fmt.Sprintf(`{"buggify":{"ignoreDuringRestart":[%q]}}`, one)
	case 4:
		return fmt.Sprintf(`{"buggify":{"blockRemoval":[%q]}}`, one)
	case 5:
		return fmt.Sprintf(`{"buggify":{"emptyMonitorConf":%t}}`, !byIP)
	}
	return `{"buggify":null}`
}

var (
	verbs    = []string{"", "Get", "List", "Create", "Patch", "Delete", "SaveStatus"}
	commands = []string{"", "exclude", "include", "kill", "configure", "coordinators", "status", "maintenance"}
)

// strikes lets the instance die, or be frozen, at one of its next effects.
func (l *life) strikes(in int, after, freeze bool, long time.Duration) {
	at := l.Effects() + in
	struck := false
	hook := func(isAfter bool) func(sim.Effect) error {
		return func(e sim.Effect) error {
			if struck || e.Number < at || isAfter != after || l.nested {
				return nil
			}
			struck = true
			if !freeze {
				l.dies(e, after)
			}
			l.frozen(e, long)
			return nil
		}
	}
	l.Before(hook(false))
	l.After(hook(true))
}

// frozen lets an instance stand still before an effect, while another one takes its turn. What it was about to do
// still happens; nothing else of it does.
func (l *life) frozen(e sim.Effect, long time.Duration) {
	l.say("frozen before effect %d, %s", e.Number, e)
	frozen := l.operator
	l.nested = true
	l.Advance(15 * time.Second)
	l.restart(l.owner)
	for until := l.Now().Add(min(long, 5*time.Minute)); l.Now().Before(until); {
		l.pass()
	}
	l.nested = false
	l.say("goes on with %s", e)
	l.late = append(l.late, l.Now())
	l.next, l.operator = l.operator, frozen
	l.dead = fmt.Sprintf("ended by effect %d, %s", e.Number, e)
}
