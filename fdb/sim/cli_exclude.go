package sim

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// exclude excludes targets, and without no_wait waits until nothing of the database is left on them.
// Source: foundationdb 7.3.69, fdbcli/ExcludeCommand.actor.cpp.
func (t *cli) exclude(words []string) poll {
	if len(words) == 1 {
		return t.available(t.listExclusions)
	}
	x := &exclusion{cli: t, words: words[1:], wait: true}
	if t.c.judge.owner != "" && !t.c.Available() && !t.c.judge.mayBelieve() {
		t.c.judge.violate(9, "exclude is sent while the database is unavailable: %s", strings.Join(words[1:], " "))
	}
	return func() (time.Duration, bool) {
		if !t.connected() || !t.c.Available() {
			return 200 * time.Millisecond, false
		}
		if !x.begun {
			x.begun = true
			if !x.begin() {
				return 0, true
			}
		}
		moving := x.inProgress()
		if x.wait && len(moving) > 0 {
			return time.Second, false
		}
		x.tell(moving)
		return 0, true
	}
}

// exclusion is one exclude command.
type exclusion struct {
	*cli
	words     []string
	begun     bool
	wait      bool
	addresses []string // to tell about: given, or found by a locality
	noMatch   []string // localities without a server
}

// begin adds the targets to the list. It returns false if the command has ended.
func (x *exclusion) begin() bool {
	force := false
	var targets []string
	for _, word := range x.words {
		switch {
		case word == "FORCE":
			force = true
		case word == "no_wait":
			x.wait = false
		case word == "failed":
			x.fail("ERROR: the simulated database does not forget servers\n")
			return false
		case strings.HasPrefix(word, fdb.LocalityPrefix) && strings.Contains(word, ":"):
			targets = append(targets, word)
			found := x.c.exclusions.resolveLocality(word)
			if len(found) == 0 {
				x.noMatch = append(x.noMatch, word)
			}
			x.addresses = append(x.addresses, found...)
		case !isExclusion(word):
			x.printErr("ERROR: '%s' is neither a valid network endpoint address nor a locality\n", word)
			if strings.Contains(word, ":tls") {
				x.print("        Do not include the `:tls' suffix when naming a process\n")
			}
			return false
		default:
			word = canonical(word)
			targets = append(targets, word)
			x.addresses = append(x.addresses, word)
		}
	}
	if len(targets) == 0 {
		x.fail("ERROR: At least one valid network endpoint address or a locality must be provided\n")
		return false
	}
	slices.SortFunc(x.addresses, compareTargets)
	x.addresses = slices.Compact(x.addresses)
	if !force && x.c.exclusions.leavesTooLittle(targets) {
		space := "available space"
		if x.version.Short() == "7.1" {
			space = "free space"
		}
		x.fail("ERROR: This exclude may cause the total %s in the cluster to drop below 10%%.\n%s\n", space, x.forceHint())
		return false
	}
	x.c.exclusions.add(targets)
	x.calm()
	if x.wait {
		x.print("Waiting for state to be removed from all excluded servers. This may take a while.\n" +
			"(Interrupting this wait with CTRL+C will not cancel the data movement.)\n")
	}
	return true
}

// forceHint is the last line of the refusal: fdbcli looks for the words free space in the error.
func (x *exclusion) forceHint() string {
	if x.version.Short() == "7.1" {
		return "Type `exclude FORCE <ADDRESS...>' to exclude without checking free space."
	}
	return "Type `exclude FORCE failed <ADDRESS...>' to exclude without performing safety checks."
}

// canonical writes an IP, or an IP with port, as FoundationDB prints it.
func canonical(target string) string {
	if ip, err := netip.ParseAddr(target); err == nil {
		return ip.String()
	}
	if at, err := netip.ParseAddrPort(target); err == nil {
		return at.String()
	}
	return target
}

// compareTargets orders by IP and port, as numbers.
func compareTargets(a, b string) int {
	left, right := fdb.Address{}, fdb.Address{}
	_ = left.UnmarshalText([]byte(a))
	_ = right.UnmarshalText([]byte(b))
	x, _ := netip.ParseAddr(left.Host)
	y, _ := netip.ParseAddr(right.Host)
	return cmp.Or(x.Compare(y), cmp.Compare(left.Port, right.Port))
}

// inProgress returns what is in progress of these addresses; if something is, everything else that is
// excluded and in progress counts too.
func (x *exclusion) inProgress() []fdb.Address {
	all := x.c.exclusions.inProgress()
	ours := slices.ContainsFunc(all, func(a fdb.Address) bool {
		return slices.ContainsFunc(x.addresses, func(target string) bool { return covers(target, a) })
	})
	if !ours {
		return nil
	}
	return all
}

// tell prints a line for each address and each locality without servers.
func (x *exclusion) tell(moving []fdb.Address) {
	for _, target := range x.addresses {
		machine := !strings.Contains(strings.TrimPrefix(target, "["), "]:") && strings.Count(target, ":") != 1
		present := slices.ContainsFunc(x.c.processes.workers(), func(p *process) bool {
			return slices.ContainsFunc(p.Addresses, func(a fdb.Address) bool { return covers(target, a) })
		})
		switch busy := slices.ContainsFunc(moving, func(a fdb.Address) bool { return covers(target, a) }); {
		case !present && machine:
			x.printErr("  %s(Whole machine)  ---- WARNING: Missing from cluster!Be sure that you excluded the correct machines before removing them from the cluster!\n", target)
		case !present:
			x.printErr("  %s  ---- WARNING: Missing from cluster! Be sure that you excluded the correct processes before removing them from the cluster!\n", target)
		case busy && machine:
			x.printErr("  %s(Whole machine)  ---- WARNING: Exclusion in progress! It is not safe to remove this machine from the cluster\n", target)
		case busy:
			x.printErr("  %s  ---- WARNING: Exclusion in progress! It is not safe to remove this process from the cluster\n", target)
		case machine:
			x.print("  %s(Whole machine)  ---- Successfully excluded. It is now safe to remove this machine from the cluster.\n", target)
		default:
			x.print("  %s  ---- Successfully excluded. It is now safe to remove this process from the cluster.\n", target)
		}
	}
	for _, locality := range x.noMatch {
		x.printErr("  %s  ---- WARNING: Currently no servers found with this locality match! Be sure that you excluded the correct locality.\n", locality)
	}
	found := false
	for _, a := range x.c.coordination.addresses() {
		if slices.ContainsFunc(x.addresses, func(target string) bool { return covers(target, a) }) {
			x.printErr("WARNING: %s is a coordinator!\n", a)
			found = true
		}
	}
	if found {
		x.print("Type `help coordinators' for information on how to change the\ncluster's coordination servers before removing them.\n")
	}
}

func (t *cli) listExclusions() {
	if len(t.c.exclusions.targets) == 0 {
		t.print("There are currently no servers or localities excluded from the database.\nTo learn how to exclude a server, type `help exclude'.\n")
		return
	}
	t.print("There are currently %d servers or localities being excluded from the database:\n", len(t.c.exclusions.targets))
	for _, localities := range []bool{false, true} {
		for _, target := range t.c.exclusions.targets {
			if strings.HasPrefix(target, fdb.LocalityPrefix) == localities {
				t.print("  %s\n", target)
			}
		}
	}
	t.print("To find out whether it is safe to remove one or more of these\nservers from the cluster, type `exclude <addresses>'.\n" +
		"To return one of these servers to the cluster, type `include <addresses>'.\n\n" +
		"There are currently 0 servers or localities marked as failed in the database:\n")
}

func (t *cli) include(words []string) poll {
	if len(words) < 2 {
		return immediately(func() {
			t.usage("include all|[<ADDRESS...>] [locality_dcid:<excludedcid>] [locality_zoneid:<excludezoneid>] [locality_machineid:<excludemachineid>] [locality_processid:<excludeprocessid>] or any locality data")
		})
	}
	all := false
	var targets []string
	for _, word := range words[1:] {
		switch {
		case word == "all":
			all = true
		case strings.HasPrefix(word, fdb.LocalityPrefix) && strings.Contains(word, ":"):
			targets = append(targets, word)
		case !isExclusion(word):
			return immediately(func() {
				t.fail("ERROR: '%s' is neither a valid network endpoint address nor a locality\n", word)
				if strings.Contains(word, ":tls") {
					t.print("        Do not include the `:tls' suffix when naming a process\n")
				}
			})
		default:
			targets = append(targets, canonical(word))
		}
	}
	return t.available(func() { t.c.exclusions.remove(targets, all) })
}
