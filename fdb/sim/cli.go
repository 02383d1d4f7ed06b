package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// cli is the state of one fdbcli. Its commands print the texts of fdbcli/*Command.actor.cpp and
// fdbcli/fdbcli.actor.cpp at 7.1.67, 7.3.69 and 7.4.6; where they stand says testdata/SOURCES.md.
type cli struct {
	c        *Cluster
	version  fdb.Version
	from     fdb.Connection
	out, err *strings.Builder
	several  bool // commands in one line, which are repeated
	failed   bool
	warning  int // of the long delay: an older one is void

	killable  []string // what kill has listed
	tr        *Transaction
	inTr      bool
	writes    bool            // writemode
	options   map[string]bool // of all transactions
	trOptions map[string]bool // of the one that has begun
}

func (t *cli) print(format string, args ...any)    { fmt.Fprintf(t.out, format, args...) }
func (t *cli) printErr(format string, args ...any) { fmt.Fprintf(t.err, format, args...) }

// fail prints an error and has the run fail.
func (t *cli) fail(format string, args ...any) {
	t.printErr(format, args...)
	t.failed = true
}

// usage prints how a command is written.
func (t *cli) usage(text string) {
	t.print("Usage: %s\n", text)
	t.failed = true
}

// echo repeats a command of several.
func (t *cli) echo(words []string) {
	if !t.several {
		return
	}
	t.print(">>>")
	for _, word := range words {
		t.print(" %s", formatted(word))
	}
	t.print("\n")
}

// warnIn warns of a long delay after some time, unless calm is called before: on stderr, and with a line
// about the database on stdout.
func (t *cli) warnIn(d time.Duration) {
	t.warning++
	warning := t.warning
	t.c.clock.after(d, func() {
		if t.warning != warning {
			return
		}
		t.printErr("\nWARNING: Long delay (Ctrl-C to interrupt)\n")
		switch {
		case !t.connected() || !t.c.Available():
			t.print("The database is unavailable; type `status' for more information.\n")
		case !t.c.healthy():
			t.print("The database is available, but has issues (type 'status' for more information).\n")
		default:
			t.print("The database is available.\n")
		}
	})
}

func (t *cli) calm() { t.warning++ }

// longDelay is when fdbcli warns; a status may take some more.
const (
	longDelay       = 5 * time.Second
	longStatusDelay = 7 * time.Second
)

// connected tells whether the tool reaches the cluster controller.
func (t *cli) connected() bool { return t.c.clientView(t.from, t.version).cluster }

// available waits for the database and then does something once.
func (t *cli) available(do func()) poll {
	return func() (time.Duration, bool) {
		if !t.connected() || !t.c.Available() {
			return 200 * time.Millisecond, false
		}
		do()
		return 0, true
	}
}

// immediately does something at once.
func immediately(do func()) poll {
	return func() (time.Duration, bool) {
		do()
		return 0, true
	}
}

// start begins a command.
func (t *cli) start(words []string) poll {
	switch words[0] {
	case "status":
		return t.status(words)
	case "configure":
		return t.configure(words)
	case "exclude":
		return t.exclude(words)
	case "include":
		return t.include(words)
	case "kill":
		return t.kill(words)
	case "coordinators":
		return t.coordinators(words)
	case "maintenance":
		return t.maintenance(words)
	case "force_recovery_with_data_loss":
		return t.forceRecovery(words)
	case "sleep":
		return t.sleep(words)
	case "option", "writemode", "begin", "commit", "reset", "rollback", "get", "set", "clear", "clearrange", "getrange", "getrangekeys":
		return t.transact(words)
	case parseError:
		return immediately(func() {
			t.fail("ERROR: Command failed to completely parse.\n")
		})
	default:
		return immediately(func() { t.fail("ERROR: Unknown command `%s'. Try `help'?\n", formatted(words[0])) })
	}
}

func (t *cli) status(words []string) poll {
	if !slices.Equal(words, []string{"status", "json"}) {
		return immediately(func() { t.usage("status [minimal|details|json]") })
	}
	asked := false
	return func() (time.Duration, bool) {
		if !asked {
			asked = true
			t.warnIn(longStatusDelay)
			took := t.c.options.Times.Status
			if f := t.c.faults.active(FaultStatusLate); f != nil {
				took += f.Takes
			}
			if !t.connected() {
				took += 2 * time.Second
			}
			return took, false
		}
		t.out.Write(t.c.Status(t.from, t.version))
		t.out.WriteByte('\n')
		t.c.judge.hears()
		return 0, true
	}
}

func (t *cli) sleep(words []string) poll {
	seconds := 0.0
	if len(words) == 2 {
		n, err := strconv.ParseFloat(words[1], 64)
		if err == nil {
			seconds = n
		}
	}
	if seconds <= 0 {
		return immediately(func() { t.usage("sleep <SECONDS>") })
	}
	slept := false
	return func() (time.Duration, bool) {
		if slept {
			return 0, true
		}
		slept = true
		return time.Duration(seconds * float64(time.Second)), false
	}
}

func (t *cli) configure(words []string) poll {
	waited := time.Duration(0)
	creating := len(words) > 1 && words[1] == "new"
	return func() (time.Duration, bool) {
		// A new database is made before one is available; changeConfig gives up after 60 s.
		if created := t.c.settings.created(); !t.connected() || created && !t.c.Available() || !created && !creating {
			if waited += time.Second; waited <= time.Minute || creating {
				return time.Second, false
			}
			t.c.judge.configure(strings.Join(words[1:], " "), configureUnavailable)
			t.fail("ERROR: The database is unavailable\n%s", forceHint)
			return 0, true
		}
		result, printed := t.c.configure(words[1:], t.version)
		t.print("%s", printed)
		t.c.judge.configure(strings.Join(words[1:], " "), result)
		t.told(result)
		return 0, true
	}
}

// configureTexts are what fdbcli prints of the ways in which configure ends.
var configureTexts = map[configureResult]string{
	configureInvalid:            "ERROR: These changes would make the configuration invalid\n",
	configureAlreadyCreated:     "ERROR: Database already exists! To change configuration, don't say `new'\n",
	configureStorageInUnknownDC: "ERROR: All storage servers must be in one of the known regions\n" + forceHint,
	configureNotReplicated:      "ERROR: When usable_regions > 1, all regions with priority >= 0 must be fully replicated before changing the configuration\n" + forceHint,
	configureSeveralActive:      "ERROR: When changing usable_regions, only one region can have priority >= 0\n" + forceHint,
	configureRegionsChanged:     "ERROR: The region configuration cannot be changed while simultaneously changing usable_regions\n" + forceHint,
	configureTooFewWorkers:      "ERROR: Not enough processes exist to support the specified configuration\n" + forceHint,
	configureMigrationDisabled: "ERROR: Storage engine type cannot be changed because storage_migration_type=disabled.\n" +
		"Type `configure perpetual_storage_wiggle=1 storage_migration_type=gradual' to enable gradual migration with the perpetual wiggle, or `configure storage_migration_type=aggressive' for aggressive migration.\n",
}

const forceHint = "Type `configure FORCE <TOKEN...>' to configure without this check\n"

func (t *cli) told(result configureResult) {
	switch result {
	case configureSuccess:
		t.print("Configuration changed\n")
	case configureCreated:
		t.print("Database created\n")
	case configureCreatedExperimental:
		t.print("Database created\n")
		t.warnOfEngine()
	case configureSuccessExperimental:
		t.print("Configuration changed\n")
		t.warnOfEngine()
	case configureSuccessGradual:
		t.print("Configuration changed, with warnings\n")
		t.printErr("WARN: To make progress toward the desired storage type with storage_migration_type=gradual, the Perpetual Wiggle must be enabled.\n" +
			"Type `configure perpetual_storage_wiggle=1' to enable the perpetual wiggle, or `configure storage_migration_type=gradual' to set the gradual migration type.\n")
	case configureUsage:
		t.usage("configure [new|tss]<single|double|triple|three_data_hall|three_datacenter|ssd|memory|memory-radixtree-beta|proxies=<PROXIES>|" +
			"commit_proxies=<COMMIT_PROXIES>|grv_proxies=<GRV_PROXIES>|logs=<LOGS>|resolvers=<RESOLVERS>>*|" +
			"count=<TSS_COUNT>|perpetual_storage_wiggle=<WIGGLE_SPEED>|perpetual_storage_wiggle_locality=<<LOCALITY_KEY>:<LOCALITY_VALUE>|0>|" +
			"storage_migration_type={disabled|gradual|aggressive}")
	default:
		t.fail("%s", configureTexts[result])
	}
}

func (t *cli) warnOfEngine() {
	t.printErr("WARN: %s storage engine type is still in experimental stage, not yet production tested.\n", experimental(t.c.settings.engine, t.version))
}

func (t *cli) maintenance(words []string) poll {
	switch {
	case len(words) == 1:
		return t.available(func() {
			m := t.c.maintenance
			if m.zone == "" || m.until <= t.c.clock.now {
				t.print("No ongoing maintenance.\n")
				return
			}
			t.print("Maintenance for zone %s will continue for %d seconds.\n", m.zone, int((m.until - t.c.clock.now).Seconds()))
		})
	case len(words) == 2 && words[1] == "off":
		return t.available(func() { t.c.maintenance.begin("", 0) })
	case len(words) == 4 && words[1] == "on":
		seconds, err := strconv.ParseFloat(words[3], 64)
		if err == nil {
			return t.available(func() { t.c.maintenance.begin(words[2], time.Duration(seconds*float64(time.Second))) })
		}
	}
	return immediately(func() { t.usage("maintenance [on|off] [ZONEID] [SECONDS]") })
}

// forceRecovery needs the cluster controller only, and says nothing.
func (t *cli) forceRecovery(words []string) poll {
	if len(words) != 2 {
		return immediately(func() { t.usage("force_recovery_with_data_loss <DCID>") })
	}
	return func() (time.Duration, bool) {
		if !t.connected() {
			return time.Second, false
		}
		t.c.force(words[1])
		return 0, true
	}
}

// kill lists the processes that can be killed, or kills some. It needs the cluster controller only.
func (t *cli) kill(words []string) poll {
	stage := 0
	return func() (time.Duration, bool) {
		if stage == 1 { // the requests are sent: it waits for nothing more
			t.print("Attempted to kill %d processes\n", len(words)-1)
			return 0, true
		}
		if !t.connected() {
			return 200 * time.Millisecond, false
		}
		if len(words) == 1 {
			t.list()
			return 0, true
		}
		for _, word := range words[1:] {
			if !slices.Contains(t.killable, word) {
				t.fail("ERROR: process `%s' not recognized.\n", word)
				return 0, true
			}
		}
		if unknown := t.c.processes.kill(words[1:]); unknown != "" {
			t.fail("ERROR: failed to send requests to kill processes `%s', please run the `kill’ command again to fetch latest addresses.\n", strings.Join(words[1:], ","))
			return 0, true
		}
		stage = 1
		if t.version.Short() == "7.1" {
			return 0, false
		}
		return 3 * time.Second, false
	}
}

func (t *cli) list() {
	t.killable = nil
	for _, p := range t.c.processes.workers() {
		for _, a := range p.Addresses {
			t.killable = append(t.killable, a.WithoutFlags())
		}
	}
	slices.Sort(t.killable)
	switch len(t.killable) {
	case 0:
		t.print("\nNo addresses can be killed.\n")
	case 1:
		t.print("\nThe following address can be killed:\n")
	default:
		t.print("\nThe following %d addresses can be killed:\n", len(t.killable))
	}
	for _, address := range t.killable {
		t.print("%s\n", address)
	}
	t.print("\n")
}

func (t *cli) coordinators(words []string) poll {
	if len(words) < 2 {
		return t.available(func() {
			k := t.c.coordination.connection
			var list []string
			for _, a := range k.Coordinators {
				list = append(list, a.String())
			}
			t.print("Cluster description: %s\nCluster coordinators (%d): %s\nType `help coordinators' to learn how to change this information.\n",
				k.Description, len(list), strings.Join(list, ","))
		})
	}
	changed := false
	return func() (time.Duration, bool) {
		if !t.connected() || !t.c.Available() {
			return 200 * time.Millisecond, false
		}
		if changed { // the first commit fails with the change it makes; the next finds it done
			t.print("Coordination state changed\n")
			return 0, true
		}
		var to []fdb.Address
		description := ""
		for _, word := range words[1:] {
			if text, is := strings.CutPrefix(word, "description="); is {
				description = text
				continue
			}
			a, err := fdb.ParseAddress(word)
			switch {
			case err != nil || a.Port == 0 || a.FromHostname:
				t.printErr("ERROR: '%s' is not a valid network endpoint address\n", word)
				return 0, true
			case slices.Contains(to, a):
				t.printErr("ERROR: passed redundant coordinators: `%s'\n", a)
				return 0, true
			}
			to = append(to, a)
		}
		if len(to) == 0 {
			to = t.c.coordination.connection.Coordinators
		}
		t.c.judge.effect()
		switch t.c.coordination.change(to, description) {
		case sameAddresses:
			t.print("No change (existing configuration satisfies request)\n")
			return 0, true
		case coordinatorUnreachable:
			t.fail("ERROR: One of the specified coordinators is unreachable\n")
			return 0, true
		}
		changed = true
		return 200 * time.Millisecond, false
	}
}
