package clusters_test

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// step is one thing that happens in a random life: its kind and two numbers, which mean what the kind says.
type step struct {
	kind string
	a, b int
}

// script is what happens in a life, as a text that repeats it: "storage 3 2; lose 1 4".
type script []step

func (s script) String() string {
	texts := make([]string, len(s))
	for i, one := range s {
		texts[i] = fmt.Sprintf("%s %d %d", one.kind, one.a, one.b)
	}
	return strings.Join(texts, "; ")
}

func parse(t tester, text string) (s script) {
	for part := range strings.SplitSeq(text, ";") {
		var one step
		if _, err := fmt.Sscanf(strings.TrimSpace(part), "%s %d %d", &one.kind, &one.a, &one.b); err != nil {
			t.Fatalf("%q: %v", part, err)
		}
		s = append(s, one)
	}
	return s
}

// back brings the lost node back.
func (l *life) back() {
	if l.lost != "" {
		l.ReturnNode(l.lost)
		l.lost = ""
	}
}

// victim is the nth of the pods that may go: one that is a coordinator by its IP would come back as another one, and two
// of them are the end of the database, which only a person mends.
func (l *life) victim(n int) (pod, node string) {
	pods := slices.DeleteFunc(l.podList(), func(p corev1.Pod) bool {
		return slices.ContainsFunc(l.Cluster().Connection().Coordinators, func(a fdb.Address) bool { return a.Host == p.Status.PodIP })
	})
	if len(pods) == 0 {
		return "", ""
	}
	return pods[n%len(pods)].Name, pods[n%len(pods)].Spec.NodeName
}

func (l *life) podName(n int) string {
	pod, _ := l.victim(n)
	return pod
}

func (l *life) nodeOfPod(n int) string {
	_, node := l.victim(n)
	return node
}

func kindsOf[V any](m map[string]V) []string {
	var kinds []string
	for kind := range m {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// take lets a step happen, and then some passes.
func (l *life) take(s step) {
	l.t.Helper()
	l.say("STEP %s %d %d", s.kind, s.a, s.b)
	if wish := wishes[s.kind]; wish != nil {
		l.edit(`{"spec":` + wish(l, s.a) + `}`)
	} else if accident := accidents[s.kind]; accident != nil {
		accident(l, s.a, lots[s.b%len(lots)])
	} else {
		l.t.Fatalf("no step %s", s.kind)
	}
	for range []int{0, 1, 2, 5, 12, 30}[s.b%6] {
		l.pass()
	}
}

// calm ends all faults, as the world and people do.
func (l *life) calm() {
	l.say("CALM")
	l.Clear("")
	l.Cluster().Clear("")
	l.Cluster().SetLoad(fdbsim.Load{})
	l.Cluster().Disconnect("192.0.2.9:4000")
	l.back()
	for n := range 20 {
		l.Cordon(sim.NodeName(n), false)
		l.Untaint(sim.NodeName(n), worn)
	}
	if l.slow != 0 { // somebody sets it
		l.skew, l.slow = 0, 0
	}
	l.help()
	l.edit(`{"spec":{"skip":false,"buggify":null}}`)
	for until := l.Now().Add(4 * time.Hour); l.locks && !commits(l.Cluster(), fdb.Clear(fdb.Keys("").DenyList())) && l.Now().Before(until); {
		l.pass()
	}
}

// help does what only a person can do for an upgrade that is stuck, and for groups that were made in too few zones while
// nodes took no pods.
func (l *life) help() {
	if reason := l.last.Reason(); reason == fdb.TooFewCandidates.Reason() || reason == "TooFewZones" {
		ids, _ := json.Marshal(l.crowded())
		l.edit(`{"spec":{"processGroupsToRemove":` + string(ids) + `}}`)
	}
	c := l.cluster()
	// What 7.4 has opened no older version reads: an upgrade that was taken back too late, and whose servers are missed,
	// is gone on with.
	opened := !c.Status.Health.Available && slices.ContainsFunc(l.Cluster().Transcript(), func(line string) bool {
		return strings.Contains(line, " starts: ") && strings.Contains(line, " 7.4.6 at ")
	})
	if running := c.Status.RunningVersion; l.Cluster().Protocol().Short() == "7.4" || running != "" && (opened || c.Spec.Version == "7.4.6") {
		l.edit(`{"spec":{"version":"7.4.6"}}`)
	}
	// A restart of an upgrade that has begun needs a lock, which is in the database that waits for the restart. Somebody
	// who knows that nobody else works on it switches locks off, or ends the servers by hand; the operator must not do so.
	if !c.Status.Health.Available && foundationdb.UpgradesIncompatibly(l.cluster()) {
		if !l.locks {
			l.edit(`{"spec":{"lockOptions":{"disableLocks":true}}}`)
			return
		}
		for _, pod := range l.podList() {
			for n := range 2 {
				l.Crash(namespace, pod.Name, n+1)
			}
		}
	}
}

// crowded are the groups with data that share their zone with another one.
func (l *life) crowded() (ids []string) {
	taken := map[string]bool{}
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.Marked() || !fdb.Class(g.ProcessClass).Stateful() {
			continue
		}
		if taken[g.FaultDomain] {
			ids = append(ids, string(g.ProcessGroupID))
		}
		taken[g.FaultDomain] = true
	}
	return ids
}

// runs lives through a script, checks the end, and returns what has happened.
func (s script) runs(t tester, seed uint64) (story []string) {
	o := sim.Options{Seed: seed, Nodes: 14}
	o.Database.Rules.Locks = slices.ContainsFunc(s, func(one step) bool { return one.kind == "deny" })
	l := begin(t, o, func(c *v1beta2.FoundationDBCluster) {
		if o.Database.Rules.Locks {
			c.Spec.LockOptions.DisableLocks, c.Spec.ProcessGroupIDPrefix = new(false), "zero"
		}
		c.Spec.AutomationOptions.Replacements.FailureDetectionTimeSeconds = new(600)
		c.Spec.MinimumUptimeSecondsForBounce = 60
		c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"stateless": 4}
	})
	l.forgiving = true
	l.harms()
	if l.locks = o.Database.Rules.Locks; l.locks {
		l.restart("zero")
	}
	l.say("SCRIPT %d: %s", seed, s)
	early := len(s) % 3 // some lives are disturbed from the beginning
	for i, one := range s {
		if i == early {
			l.help()
			l.settle(2 * time.Hour)
			l.writes(2*time.Second, "7.1.67", "7.3.69", "7.4.6")
		}
		if i < early && (wishes[one.kind] == nil || one.kind == "buggify") {
			continue
		}
		l.take(one)
	}
	l.calm()
	for until := l.Now().Add(time.Hour); !l.pass().IsDone() && l.Now().Before(until); {
	}
	l.help() // what was still under way may have stopped servers
	l.settle(4 * time.Hour)
	l.forgiving = false
	l.settled()
	l.tidy()
	if len(s) > early {
		l.kept()
	}
	return l.Cluster().Transcript()
}

// coordinatorsCrash is the accident that scripts are not drawn with: so soon after an upgrade that it matters it would seldom be.
const coordinatorsCrash = "coordinators"

var kinds = slices.DeleteFunc(append(slices.Concat(kindsOf(wishes), kindsOf(wishes), kindsOf(accidents)), "die", "die", "freeze", "turn"),
	func(kind string) bool { return kind == coordinatorsCrash })

// scripts are random, of up to 24 steps, or of so many as PAWL_STEPS says.
func scripts() *rapid.Generator[script] {
	least, most := 1, 24
	if n, _ := strconv.Atoi(os.Getenv("PAWL_STEPS")); n > 0 {
		least, most = n, n
	}
	return rapid.Map(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			a:    rapid.IntRange(0, 29).Draw(t, "a"),
			b:    rapid.IntRange(0, 11).Draw(t, "b"),
		}
	}), least, most), func(steps []step) script { return steps })
}

// sample makes rapid draw so many lives, which take seconds each, always the same ones; or so many as PAWL_LIVES says,
// others at each run.
func sample(t *testing.T, lives string) {
	t.Helper()
	set := func(name, value string) {
		f := flag.Lookup(name)
		if f.Value.String() != f.DefValue { // the command line says so
			return
		}
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	if text := os.Getenv("PAWL_LIVES"); text != "" {
		set("rapid.checks", text)
		return
	}
	set("rapid.checks", lives)
	set("rapid.seed", "1")
}

// TestRandomLives: changes of the spec, faults of Kubernetes and of the database, deaths and frozen instances, in any
// order. When they have ended, the cluster is as its spec says, nothing is left over and every acknowledged key is
// there. PAWL_LIVES is how many lives; a few,
// always the same ones, without it.
func TestRandomLives(t *testing.T) {
	sample(t, "20")
	rapid.Check(t, func(rt *rapid.T) {
		scripts().Draw(rt, "script").runs(rt, uint64(rapid.IntRange(1, 1<<20).Draw(rt, "seed")))
	})
}

// interrupted is a script in the middle of which the cluster is upgraded, and a majority of the coordinators crash.
func (s script) interrupted(seed int) script {
	s = slices.DeleteFunc(slices.Clone(s), func(one step) bool { return one.kind == "upgrade" })
	return slices.Insert(s, len(s)/2, step{"upgrade", 0, 1 + seed%3}, step{coordinatorsCrash, seed / 3, seed % 5})
}

// TestRandomLivesWithCrashesOfCoordinators: random lives in which a majority of the coordinators crash before, in or after
// the restart of an upgrade. PAWL_LIVES and PAWL_SEED are as in TestManyLives.
func TestRandomLivesWithCrashesOfCoordinators(t *testing.T) {
	lives, _ := strconv.Atoi(os.Getenv("PAWL_LIVES"))
	first, _ := strconv.Atoi(os.Getenv("PAWL_SEED"))
	if lives == 0 {
		lives = 6
	}
	for seed := first + 1; seed <= first+lives; seed++ {
		s := scripts().Example(seed).interrupted(seed)
		if wrong := s.survives(uint64(seed)); wrong != "" {
			t.Errorf("PAWL_LIFE='%d: %s'\n%s", seed, s, wrong)
		}
	}
}

// ended is what a life panics with that ends badly.
type ended string

// witness is a test of one life of many: the others go on when it ends badly.
type witness struct{}

func (witness) Helper()             {}
func (witness) Logf(string, ...any) {}
func (witness) Error(args ...any)   { panic(ended(fmt.Sprint(args...))) }
func (witness) Errorf(format string, args ...any) {
	panic(ended(fmt.Sprintf(format, args...)))
}
func (witness) Fatal(args ...any) { panic(ended(fmt.Sprint(args...))) }
func (witness) Fatalf(format string, args ...any) {
	panic(ended(fmt.Sprintf(format, args...)))
}

// survives runs a script and returns how it has ended badly; empty: well.
func (s script) survives(seed uint64) (wrong string) {
	defer func() {
		if r := recover(); r != nil {
			text, ok := r.(ended)
			if !ok {
				panic(r)
			}
			wrong = string(text)
		}
	}()
	s.runs(witness{}, seed)
	return ""
}

// TestManyLives: so many lives as PAWL_LIVES says, from the seed PAWL_SEED on, of so many steps as PAWL_STEPS says. Each
// that ends badly is told; with PAWL_SHORTER it is made shorter.
func TestManyLives(t *testing.T) {
	lives, _ := strconv.Atoi(os.Getenv("PAWL_LIVES"))
	if lives == 0 {
		t.Skip("PAWL_LIVES is not set")
	}
	first, _ := strconv.Atoi(os.Getenv("PAWL_SEED"))
	begun, seeds := time.Now(), make(chan int)
	var lived, bad atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range seeds {
				s := scripts().Example(seed)
				wrong := s.survives(uint64(seed))
				if n := lived.Add(1); n%10 == 0 {
					fmt.Println(n, time.Since(begun)) // how far it is
				}
				if wrong == "" {
					continue
				}
				bad.Add(1)
				told, _, _ := strings.Cut(wrong, "\n")
				fmt.Printf("PAWL_LIFE='%d: %s' %s\n", seed, s, told)
				if os.Getenv("PAWL_SHORTER") != "" {
					s, wrong = s.shorter(uint64(seed), wrong)
				}
				t.Errorf("PAWL_LIFE='%d: %s'\n%s", seed, s, wrong)
			}
		})
	}
	for seed := first + 1; seed <= first+lives; seed++ {
		seeds <- seed
	}
	close(seeds)
	workers.Wait()
	t.Logf("%d lives, %d ended badly, %s", lives, bad.Load(), time.Since(begun).Round(time.Second))
}

// shorter leaves out steps without which a life ends badly too.
func (s script) shorter(seed uint64, wrong string) (script, string) {
	tries := 30
	for size := len(s) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s) && tries > 0; {
			tries--
			if less := slices.Delete(slices.Clone(s), at, at+size); len(less) > 0 {
				if other := less.survives(seed); other != "" {
					s, wrong = less, other
					continue
				}
			}
			at += size
		}
	}
	return s, wrong
}

// known are lives that once ended badly, with their seeds and what was wrong.
var known = []struct {
	seed   uint64
	script string
	wrong  string
}{
	{7, "dns 12 6; deletion 2 4; dns 3 5", "servers that do not know their name are coordinators by it"},
	{1009, "strategy 29 4; patch 1 3", "pods of the transaction system are made anew within a minute"},
	{1013, "cpu 1 3; redundancy 29 2", "it is done before the config map has the new coordinators"},
	{2003, "die 1 2; clock 1 8; unmoved 18 11; cpu 5 1; evict 28 3; dns 7 0", "the clock is behind that of the API server"},
	{2006, "deletion 28 1; cpu 2 2; deletion 27 2; downgrade 0 2; tls 4 9; storage 3 8", "coordinators stay on what leaves, since that gets no address with TLS"},
	{1121, "service 1 3; label 0 0; cpu 3 11; turn 13 8; turn 13 1; label 3 0; cpu 5 7; turn 10 1; cpu 3 0; partial 9 3; upgrade 0 10; strategy 7 10", "an upgrade leaves servers behind that the status shows by half"},
	{4006, "density 3 2; partition 29 11; deletion 0 2; downgrade 17 11; unavailable 2 6; maintenance 2 0; density 5 6; storage 7 0; maintenance 26 3; deaf 0 6; lose 1 6; density 4 0; tls 0 2; density 29 7; cpu 11 0; image 9 9; lose 20 0; cpu 0 5; die 3 5", "pods under maintenance are made anew again and again"},
	{4136, "image 2 1; cpu 17 0; storage 26 3; turn 0 11; redundancy 0 3", "the first coordinators are replaced before there is a database"},
	{5038, "cpu 3 1; events 8 7; upgrade 0 0; deaf 14 1; density 8 11; downgrade 29 5", "an upgrade that is taken back leaves the sidecars of the new version"},
	{10140, "deletion 22 10; storage 22 11; evict 12 6; density 1 5", "a pod comes back at another address while exclude looks for it at the former one"},
	{90002, "dns 0 5; upgrade 23 1; dns 9 0; cpu 1 0", "an upgrade waits for pods that have to be made anew to know their names, and they for the upgrade"},
	{90020, "redundancy 7 1; skip 0 1; lose 0 4; image 22 4", "a pod comes back with the image of the spec, which looks for its data in another folder"},
	{2083, "patch 8 1; label 1 4; strategy 2 0; upgrade 11 1; logs 27 0; partition 0 7; density 5 8; knob 11 3", "an upgrade waits for servers that come after it"},
	{90001, "stale 12 10; prefix 10 3; taints 26 3; deletion 9 3; cpu 2 0; clock 24 5; buggify 1 7; service 1 1; cordon 29 0; patch 27 3", "by a clock that is ahead a pod is old before it is up, and that of another zone is made anew"},
	{91015, "cpu 17 5; downgrade 13 1; timeout 2 11; density 1 3; dns 10 6; patch 0 1; late 1 11; cpu 14 3; quota 21 10; unknown 12 1; logs 1 2; back 27 8; turn 11 5; timeout 1 6; dns 11 3; image 27 5; knob 14 4; localities 10 5; patch 1 0; remove 19 2; knob 23 0; stateless 3 1; density 4 10; strategy 1 10; knob 12 2; events 18 5; clock 2 1; deletion 28 10; untaint 16 3; cpu 0 1; locks 0 9; oldclient 17 8; image 18 3; buggify 19 7; old 0 0; lostreply 1 4; buggify 13 0; deletion 1 1; remove 4 4; upgrade 1 3; deletion 7 2; knob 2 6; localities 6 3; skip 7 9; stateless 5 3; dns 6 5; downgrade 15 9; stateless 13 1; cpu 1 0; redundancy 0 11", "pods of groups that leave never get their files back, and keep the data"},
	{91021, "taints 29 1; strategy 15 4; buggify 0 8; maintenance 6 5; density 28 3; strategy 11 8; logs 14 11; late 6 0; untaint 1 6; deletion 8 8; knob 25 2; turn 19 5; lose 0 5; cpu 20 1; strategy 13 10; late 0 5; service 4 0; prefix 29 1; density 0 8; die 5 1; knob 7 7; logs 0 1; cpu 11 11; redundancy 20 4; buggify 29 2; storage 7 11; redundancy 7 6; crash 16 9; buggify 17 11; prefix 0 7; buggify 0 6; unknown 1 7; log 4 1; upgrade 25 8; remove 1 10; label 15 1; stateless 28 0; buggify 11 11; deletion 19 2; buggify 28 7; skip 8 7; cpu 29 4; buggify 3 2; crash 20 1; image 0 2; maintenance 9 9; buggify 1 10; cpu 27 2; storage 12 0; density 1 0", "an upgrade begins while servers are down, which come back alone with the new version"},
	{94070, "storage 12 11; buggify 21 0; image 26 2; dns 9 1; density 24 4; upgrade 9 9; localities 1 0; deaf 7 7", "pods that go keep the former version through an upgrade, and their data"},
	{94078, "service 1 5; cpu 28 6; tls 0 6; storage 19 11; buggify 19 6; turn 8 1; image 17 0; locks 6 10; dns 29 8; buggify 0 1; tls 0 0; service 0 7; knob 29 9; buggify 26 0; image 0 3; patch 29 6; buggify 25 11; localities 16 11; deletion 16 5; cpu 19 1", "a pod of a group that goes is made anew, and one of another zone within the minute in which the database does not tell"},
	{91097, "cpu 3 3; locks 2 7; dns 26 1; skip 27 11; cpu 27 11; late 17 6; taint 29 3; downgrade 17 11; localities 1 4; stuck 0 9; downgrade 3 11; buggify 13 11; deletion 13 3; redundancy 7 4; downgrade 24 11; cpu 4 11; image 12 0; deletion 22 8; locks 14 8; knob 7 4; conflict 26 7; failed 2 3; buggify 23 9; redundancy 19 8; service 1 6", "a conflict loses the new connection string, and the coordinator of the former one fails"},
	{91097, "cpu 3 3; buggify 21 1; locks 2 7; dns 26 1; skip 27 11; cpu 27 11; clock 2 10; turn 21 8; density 13 6; density 4 3; maintenance 27 6; deaf 3 1; late 17 6; taint 29 3; downgrade 17 11; localities 1 4; stuck 0 9; downgrade 3 11; patch 19 6; resolvers 7 0; downgrade 13 8; buggify 13 11; deletion 13 3; redundancy 7 4; resolvers 18 5; unmoved 5 3; tls 7 5; buggify 13 0; redundancy 1 0; image 4 0; buggify 27 6; deletion 7 3; service 3 0; upgrade 8 0; knob 8 7; buggify 7 4; downgrade 24 11; cpu 4 11; image 12 0; deletion 22 8; locks 14 8; knob 7 4; conflict 26 7; failed 2 3; buggify 23 9; buggify 15 3; cpu 21 0; buggify 7 7; redundancy 19 8; service 1 6", "an upgrade leaves the servers of groups that go behind, which have no files yet"},
	{91075, "redundancy 13 2; cpu 9 8; deletion 1 3; unavailable 11 1; patch 3 6; buggify 7 0; strategy 2 1; density 19 11; lag 2 4; dns 1 5; buggify 18 11; partition 1 8; prefix 2 8; knob 0 3; dns 2 4; buggify 0 6; patch 0 1; late 20 11", "a silent group and one that is replaced wait for each other"},
	{95005, "image 4 10; oldclient 1 7; buggify 10 3; cpu 28 10; density 23 1; logs 29 1; turn 16 0; prefix 1 7; buggify 9 3; buggify 14 1; cpu 12 5; conflict 19 7; upgrade 0 6; locks 6 1; knob 13 3; freeze 15 6; deny 9 10; turn 19 2; prefix 28 8; buggify 5 9; buggify 1 7; crash 1 4; resolvers 13 6; cpu 0 1; late 15 4; knob 19 3; taints 28 2; buggify 13 11; prefix 9 0; events 1 1; knob 2 5; service 0 8; buggify 3 11; cpu 9 3; cpu 4 7; deletion 17 7; clock 2 11; label 3 6; deny 7 1; strategy 2 2; logs 10 8; image 4 2; logs 8 2; prefix 2 0; cordon 11 6; turn 0 6; cpu 2 2; clock 11 9; stateless 10 4; upgrade 1 0", "servers that stand still while files of an upgrade are there keep their files, and their data"},
	{95009, "dns 0 5; log 1 5; skip 0 0; dns 1 0; upgrade 0 0; image 0 0", "an upgrade waits for unified pods that cannot take its files, once the image type is split"},
	{94077, "image 10 2; skip 14 5; image 21 10; log 29 1; upgrade 27 1; cpu 12 1; maintenance 1 6", "in an upgrade pods of the former image type get the sidecar of the other one"},
	{98291, "density 1 0; lostreply 10 11; clock 29 1; image 22 11; unbound 9 6; image 0 8; locks 4 0; cordon 23 5; refuse 19 7; patch 1 5; knob 7 7; cpu 1 6; downgrade 29 3; logs 24 0; localities 0 3; deletion 7 2; skip 3 0; localities 3 2; quota 3 2; tls 21 9; refusal 3 7; upgrade 1 0; stuck 1 7; buggify 21 2; unbound 6 6; patch 1 0; stateless 1 11; deny 2 1; strategy 5 4; storage 12 1; upgrade 3 9; buggify 1 6; downgrade 1 5; freeze 5 6; storage 2 3; dns 23 8; taints 7 5; lag 4 6; upgrade 1 4; cpu 15 8; tls 4 1; redundancy 10 9; turn 29 4; stale 27 8; label 21 7; cpu 12 5; locks 0 10; buggify 29 5; upgrade 0 8; dns 12 8", "servers that stood still while files of an upgrade are there speak another protocol, and the recovery waits for them"},
	{110012, "prefix 1 10; taints 29 9; turn 25 0; buggify 2 2; locks 3 3; cpu 0 7; localities 10 7; density 17 6; buggify 29 7; service 5 1; unbound 5 2; buggify 19 5; die 0 2; cpu 21 8; unbound 26 5; evict 14 1; stuck 27 8; cpu 1 2; cpu 8 3; image 0 0; remove 12 9; density 19 1; service 10 3; knob 13 0; refusal 26 0; downgrade 27 2; turn 9 4; deletion 29 5; events 3 3; label 1 10; storage 5 6; maintenance 13 10; patch 12 9; die 1 5; freeze 4 3; buggify 17 0; cpu 15 2; buggify 21 7; events 8 1; buggify 3 9; density 1 9; patch 5 0; resolvers 0 2; buggify 3 3; unknown 2 2; tls 0 5; logs 23 0; evict 8 0; untaint 17 9; image 28 11", "a group whose pod has another address is removed with what the database knows by the former one"},
	{98670, "log 1 10; dns 1 4; cpu 3 0; knob 25 3; density 2 11; lostreply 4 11; localities 1 2; log 6 5; service 14 10; redundancy 3 2; knob 14 9; buggify 29 7; density 13 11; cpu 29 11; downgrade 0 1; density 7 5; taints 5 2; unknown 9 8; back 13 3; remove 7 11; buggify 4 10; density 2 11; localities 1 5; upgrade 8 2; image 18 8; cpu 1 8; tls 3 1; label 28 3; cpu 5 4; deletion 17 6; density 3 11; image 10 8; unmoved 13 3; label 6 11; log 12 4; crash 29 3; cpu 1 5; deny 29 2; cpu 21 2; storage 1 3; redundancy 5 0; localities 18 4; maintenance 17 5; unknown 25 10; turn 8 1; label 2 6; deletion 4 1; localities 1 5; lostreply 12 2; die 21 1", "in an upgrade a part of the servers restarts while the database works and others have no files yet"},
	{110033, "buggify 13 1; density 14 0; cpu 27 1; die 16 0; patch 17 2; doubled 0 0; tls 1 5; cpu 14 5; cpu 24 7; label 1 0; events 7 2; doubled 27 3; buggify 3 7; stale 22 4; tls 25 9; taints 15 0; downgrade 11 5; locks 0 6; density 0 1; knob 0 3; skip 1 0; upgrade 13 1; again 12 8; knob 19 1; buggify 5 3; dns 4 11; unbound 0 0; density 1 8; resolvers 13 8; taints 9 9; knob 21 3; upgrade 4 6; knob 1 0; strategy 21 0; buggify 14 6; image 1 8; stuck 2 9; storage 20 11; localities 0 1; tls 18 9; log 17 0; timeout 29 7; lose 29 0; cpu 1 3; cpu 0 2; downgrade 10 1; density 12 5; downgrade 12 1; prefix 1 4; buggify 13 7", "in an upgrade servers that speak the new version have those restart that have their files, and not the logs"},
	{98751, "storage 11 0; maintenance 21 3; locks 14 1; stateless 9 7; timeout 23 1; untaint 4 11; unknown 19 10; cpu 3 11; clock 0 0; downgrade 3 0; turn 3 8; service 16 8; turn 0 10; partition 0 1; deletion 4 4; die 11 1; buggify 2 11; redundancy 10 3; density 5 2; unbound 2 0; locks 17 0; log 3 4; strategy 1 1; logs 8 7; buggify 6 0; dns 29 9; crash 5 1; lose 4 11; upgrade 24 2; service 5 6; evict 3 9; buggify 1 9; partition 14 5; deletion 0 0; tls 0 10; buggify 11 3; strategy 29 11; knob 2 7; die 23 2; logs 2 0; failed 29 1; localities 25 4; image 3 3; freeze 0 1; crash 24 3; deletion 24 5; cpu 23 6; maintenance 23 1; lag 0 0; buggify 0 8", "an upgrade needs a lock, which is in the database that waits for the upgrade"},
	{110103, "density 25 6; lostreply 25 10; localities 23 10; localities 24 1; density 19 1; patch 5 1; localities 26 4; knob 0 3; redundancy 16 11; rival 12 5; buggify 19 1; stateless 1 6; upgrade 2 11; die 3 10; turn 15 10; maintenance 12 2; log 1 9; deletion 0 9; stale 3 3; dns 12 10; density 6 2; die 1 0; lostreply 0 1; buggify 27 6; buggify 0 4; buggify 2 0; strategy 1 11; cpu 11 5; uncordon 0 11; tls 15 0; downgrade 29 2; cpu 0 1; log 21 5; density 4 1; tls 5 6; die 1 0; turn 1 11; patch 29 6; redundancy 2 0; timeout 2 5; cpu 7 2; stateless 1 7; buggify 0 1; partial 0 0; dns 16 4; density 18 4; strategy 5 11; redundancy 0 2; cpu 29 5; dns 9 8", "an upgrade is taken back whose logs the new version has opened"},
	{110171, "localities 9 7; cpu 0 3; unavailable 3 6; uncordon 28 3; untaint 29 8; knob 14 0; knob 4 2; redundancy 0 3; patch 22 4; buggify 3 11; label 3 3; dns 16 0; untaint 3 10; cpu 5 6; cpu 20 3; downgrade 4 11; buggify 21 10; clock 0 2; turn 15 0; events 29 10; prefix 8 11; buggify 5 9; locks 12 6; buggify 5 8; deletion 10 1; lose 4 1; image 3 3; downgrade 3 2; cpu 0 8; failed 1 9; patch 20 8; turn 0 0; log 6 10; unbound 2 1; cpu 9 11; die 2 8; turn 5 7; knob 1 1; log 3 2; knob 1 0; knob 10 1; knob 9 0; prefix 3 10; upgrade 20 0; storage 0 3; buggify 27 10; buggify 16 1; lostreply 6 1; strategy 3 0; buggify 26 9", "after a restart an excluded server stays the cluster controller until the operator acts again"},
	{110259, "cordon 13 3; conflict 19 11; cpu 10 11; density 2 2; maintenance 1 7; image 17 2; back 18 0; log 0 9; cpu 5 8; upgrade 0 6; remove 7 11; die 1 1; image 22 1; logs 29 9; buggify 1 8; prefix 8 6; upgrade 9 5; patch 1 3; cpu 3 9; cpu 12 3; density 0 10; crash 1 1; deletion 6 8; log 13 5; cpu 13 9; resolvers 2 11; cpu 5 8; buggify 0 8; crash 0 10; buggify 6 9; downgrade 20 10; dns 1 6; service 12 6; cpu 18 5; cpu 2 3; turn 28 5; deny 0 1; taint 0 2; deletion 20 11; buggify 12 0; unavailable 6 7; remove 20 0; cpu 29 2; dns 28 0; cpu 25 9; deletion 28 7; tls 21 0; localities 22 6; deletion 29 3; downgrade 14 8", "in an upgrade the coordinators and logs without files are left behind by those that have them"},
	{150078, "turn 2 2; image 0 0; image 1 8; upgrade 25 6; freeze 14 4; buggify 2 2; untaint 2 4; buggify 0 7; logs 17 2; deletion 10 1; skip 7 11; cpu 1 11; prefix 14 6; log 1 8; buggify 18 9; label 2 11; service 1 5; turn 23 4; refusal 17 8; patch 14 7; cpu 0 8; cpu 0 8; patch 1 0; density 4 3; buggify 5 10; lose 29 6; density 17 10; deletion 0 6; skip 25 4; buggify 4 1; turn 13 3; knob 8 1; rival 9 1; cpu 7 4; deletion 0 0; buggify 0 0; freeze 10 1; density 29 0; lose 25 0; die 18 1; density 2 6; events 0 7; skip 19 2; density 24 1; unavailable 0 1; oldclient 5 8; downgrade 7 2; back 4 2; knob 29 1; downgrade 0 0", "a part of the servers restarts for an upgrade while the database recovers"},
	{150159, "resolvers 8 7; cpu 2 1; service 3 6; turn 16 11; cpu 24 11; unbound 11 1; buggify 7 1; upgrade 7 0; prefix 23 4; cpu 10 2; buggify 11 4; clock 25 9; dns 15 0; tls 27 0; cpu 29 3; buggify 1 3; logs 28 7; unmoved 0 10; stateless 0 10; buggify 1 4; logs 12 6; die 0 1; buggify 12 0; unavailable 1 7; cordon 19 6; cpu 7 0; remove 0 3; patch 29 8; image 5 0; buggify 0 11; stateless 3 3; log 10 7; density 1 4; prefix 1 3; dns 1 1; cpu 23 0; cpu 23 1; partial 0 1; dns 21 1; downgrade 29 1; deletion 29 9; again 4 4; cpu 12 10; buggify 2 8; redundancy 23 1; density 16 4; cpu 0 0; lostreply 23 11; taints 0 1; storage 23 7", "an upgrade that servers have begun waits for data which only they can read"},
	{151420, "density 12 3; unmoved 26 2; tls 0 0; old 5 3; buggify 1 5; die 29 6; prefix 6 0; image 4 1; taint 16 8; cpu 16 9; crash 14 4; image 0 2; image 0 3; label 1 1; cpu 0 11; tls 1 3; remove 0 6; remove 3 1; storage 27 11; slow 4 1; density 1 3; deletion 11 0; turn 4 1; tls 0 5; taints 14 3; lose 25 7; cpu 4 5; buggify 3 1; deletion 0 5; lag 6 6; patch 3 7; knob 22 2; rival 1 0; deletion 0 1; localities 18 1; knob 1 1; image 22 3; buggify 12 4; stateless 6 3; late 7 0; cpu 0 3; maintenance 28 11; knob 8 8; dns 20 7; turn 7 5; localities 10 1; unbound 23 1; downgrade 1 1; knob 12 0; buggify 28 3", "by a clock that is fast a silent server counts as seen by the status"},
	{151916, "cpu 1 5; cpu 2 1; buggify 1 5; buggify 1 1; taint 14 3; density 29 10; cpu 21 1; stale 23 1; cpu 28 3; prefix 25 5; late 20 1; logs 1 3; turn 1 0; downgrade 1 6; image 2 4; cpu 5 8; again 14 11; downgrade 0 0; strategy 0 1; freeze 11 0; density 12 5; deletion 6 11; buggify 11 1; knob 23 3; density 9 7; buggify 0 0; buggify 15 3; prefix 9 0; cpu 4 0; cpu 14 0; log 8 8; conflict 13 3; dns 3 3; turn 16 7; turn 12 3; buggify 5 10; cpu 23 0; density 19 6; downgrade 27 10; cordon 1 6; locks 8 11; dns 13 10; cpu 5 11; service 3 0; strategy 0 1; resolvers 22 7; deletion 28 11; strategy 13 1; slow 6 5; cpu 10 11", "two groups of different prefixes have one number, and so the same children"},
	{152041, "downgrade 6 8; storage 1 1; buggify 1 0; crash 7 6; log 1 5; maintenance 0 4; freeze 2 10; quota 26 3; patch 0 8; dns 2 5; dns 0 0; buggify 1 11; logs 11 6; buggify 1 9; storage 5 4; redundancy 7 5; deletion 21 0; cpu 21 2; conflict 25 7; service 4 8; events 6 5; downgrade 11 8; maintenance 2 9; turn 13 1; image 7 2; prefix 24 0; cpu 13 9; remove 0 9; cpu 0 9; maintenance 16 10; log 2 2; deletion 5 2; turn 18 8; label 3 4; density 27 10; deletion 1 4; partial 10 3; density 1 11; maintenance 0 4; again 22 2; stateless 27 0; doubled 5 1; maintenance 1 2; cpu 0 9; buggify 25 0; cpu 14 1; oldclient 5 10; clock 0 3; log 21 1; knob 3 7", "what a partial status hides stays excluded by its address"},
	{152420, "density 13 1; slow 1 3; dns 28 10; lag 18 10; deletion 5 3; service 5 11; logs 0 10; cpu 28 1; logs 5 1; doubled 0 3; redundancy 15 0; log 29 1; redundancy 4 4; cpu 8 1; patch 6 1; upgrade 1 3; patch 13 11; deletion 26 10; knob 6 1; label 1 10; buggify 5 4; unknown 21 2; locks 10 2; locks 11 10; again 14 3; maintenance 12 8; label 17 2; density 2 6; density 1 1; old 27 5; untaint 15 1; buggify 3 0; stateless 7 1; buggify 28 4; tls 29 6; redundancy 8 1; uncordon 12 5; maintenance 28 5; knob 1 4; doubled 3 9; patch 1 1; stateless 29 4; turn 16 1; buggify 16 10; deaf 5 6; buggify 26 4; cpu 4 11; buggify 6 1; buggify 2 9; patch 29 0", "servers without files are left behind by an upgrade that goes on, whose files came a moment ago"},
	{152454, "upgrade 7 1; downgrade 1 10; cpu 1 8; locks 1 1; cpu 1 4; again 21 11; image 18 3; events 1 11; downgrade 21 10; deaf 0 1; buggify 1 4; knob 3 10; rival 1 7; resolvers 1 6; buggify 24 6; prefix 8 0; deletion 1 4; image 22 6; cpu 5 6; density 15 11; untaint 29 8; skip 22 6; timeout 0 10; deletion 22 2; density 1 1; late 0 0; patch 29 1; buggify 0 7; logs 0 11; buggify 28 2; buggify 21 4; lag 24 6; dns 0 1; service 22 9; buggify 24 5; taints 15 1; stuck 7 11; upgrade 29 2; image 3 2; density 0 4; density 0 6; image 12 2; stateless 3 4; dns 1 10; cpu 0 1; label 1 11; service 15 4; buggify 1 2; back 10 1; slow 22 0", "the version is changed before the first server starts"},
	{152523, "deletion 25 1; density 12 3; downgrade 18 8; remove 20 10; deletion 29 6; deletion 1 6; turn 6 5; image 9 6; lose 10 2; label 1 3; upgrade 29 1; oldclient 1 3; cpu 1 8; redundancy 1 2; buggify 2 6; unbound 1 1; cpu 3 11; log 29 3; stateless 2 5; cpu 1 8; unavailable 0 5; unbound 27 1; density 26 11; density 1 2; buggify 27 6; dns 6 1; deletion 1 2; density 18 0; uncordon 4 4; slow 16 0; maintenance 9 3; maintenance 5 0; cpu 14 2; cpu 0 2; untaint 29 11; strategy 23 2; image 23 0; partition 1 3; tls 16 9; dns 21 1; image 0 1; resolvers 0 4; lag 8 1; cpu 10 1; cpu 2 10; image 1 2; stateless 23 0; density 6 5; deletion 1 2; cpu 21 0", "a conversion to TLS deletes the pod of the only coordinator"},
}

func TestKnownLives(t *testing.T) {
	for _, k := range known {
		t.Run(k.wrong, func(t *testing.T) {
			t.Parallel()
			parse(t, k.script).runs(t, k.seed)
		})
	}
}

// TestALifeRepeats: a seed and a script always are the same story, as far as they say it.
func TestALifeRepeats(t *testing.T) {
	t.Parallel()
	for seed := 1; seed <= 2; seed++ {
		s := scripts().Example(seed)
		first, second := s.runs(t, uint64(seed)), s.runs(t, uint64(seed))
		for i := range first {
			if i >= len(second) || first[i] != second[i] {
				t.Fatalf("seed %d, line %d: %q, and then something else", seed, i, first[i])
			}
		}
		t.Logf("seed %d: %d lines, %x", seed, len(first), sha256.Sum256([]byte(strings.Join(first, "\n"))))
	}
}

// TestOneLife is the life that PAWL_LIFE says, as the others tell it: seed: script.
func TestOneLife(t *testing.T) {
	text := os.Getenv("PAWL_LIFE")
	if text == "" {
		t.Skip("PAWL_LIFE is not set")
	}
	var seed uint64
	before, after, _ := strings.Cut(text, ":")
	if _, err := fmt.Sscan(before, &seed); err != nil {
		t.Fatal(err)
	}
	parse(t, after).runs(t, seed)
}

func versionsOf(t tester, texts ...string) (versions []fdb.Version) {
	for _, text := range texts {
		v, err := fdb.ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	return versions
}
