package fdb

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// WordInvalid says that a text cannot become part of a command: fdbcli splits a command text at
// spaces and semicolons, and quotes and backslashes change what follows.
var WordInvalid = fault.Declare(fault.Kind{
	Code: "FDB_WORD_INVALID", Class: fault.Invalid,
	Title:  "a text cannot become part of a command",
	Remedy: "Correct the field that the message names: no white space, semicolons, quotes or backslashes, and only the characters of its form.",
	Guide:  "foundationdb.md#if-it-does-not-go-on",
})

// Word is the strict form of what becomes part of the text of a command.
type Word string

const (
	WordAddress    Word = "address"     // as ParseAddress reads it
	WordLocality   Word = "locality"    // locality_name:value, or name:value
	WordZone       Word = "zone"        // the value of a fault domain
	WordTag        Word = "tag"         // of a backup or restore
	WordKey        Word = "key"         // of a key range: letters, digits, / - _ . and \xNN for any other byte
	WordDatacenter Word = "data center" // the id of one
	WordWiggle     Word = "wiggle"      // a locality to wiggle, or 0
)

// wordForms has one expression a form. The key's is the one of fdb-kubernetes-operator 2.33.0,
// api/v1beta2/foundationdbrestore_types.go, with backslashes only where they escape a byte; the
// wiggle's is the one of foundationdb_database_configuration.go there.
var wordForms = map[Word]*regexp.Regexp{
	WordLocality:   regexp.MustCompile(`^[A-Za-z0-9_]+:[A-Za-z0-9_./-]+$`),
	WordZone:       regexp.MustCompile(`^[A-Za-z0-9_.:/-]+$`),
	WordTag:        regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.:/-]{0,63}$`),
	WordKey:        regexp.MustCompile(`^(?:[A-Za-z0-9/_.-]|\\x[0-9A-Fa-f]{2})+$`),
	WordDatacenter: regexp.MustCompile(`^[A-Za-z0-9_./-]+$`),
	WordWiggle:     regexp.MustCompile(`^(?:[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+|0)$`),
}

// CheckWord refuses a text that does not have the form. It fails with WordInvalid.
func CheckWord(form Word, text string) error {
	if form == WordAddress {
		if _, err := ParseAddress(text); err != nil {
			return WordInvalid.Errorf("%s", fault.Message(err))
		}
		return nil
	}
	if expression := wordForms[form]; expression == nil || !expression.MatchString(text) {
		return WordInvalid.Errorf("%q is no %s", text, form)
	}
	return nil
}

// maxDialogueLine is how long a line of an interactive fdbcli may be: it reads lines into a buffer of
// 4096 bytes with line end and NUL (linenoise.c at 7.1.67, 7.3.69 and 7.4.6).
const maxDialogueLine = 4094

var (
	// wordForm is what a word of a configuration may be, and the text between the brackets of regions.
	wordForm = regexp.MustCompile(`^[A-Za-z0-9_./:=,+-]+$`)
	knobForm = regexp.MustCompile(`^--[A-Za-z0-9][^\x00-\x08\x0a-\x1f]*$`)
)

// Check refuses a call of which a word does not have the strict form of its place, so that no value of a
// spec becomes a second command or an option.
func (c Call) Check() error {
	if err := c.checkWhere(); err != nil {
		return err
	}
	switch c.Command {
	case CommandStatus, CommandMaintenanceOff, CommandConnection, CommandTransaction, CommandVersion:
		return nil
	case CommandExclude, CommandInclude:
		return c.checkTargets(isExclusion, "a locality, an IP or an IP with port")
	case CommandKill:
		return c.checkTargets(isIPPort, "an IP with port")
	case CommandCoordinators:
		return c.checkTargets(isCoordinator, "an IP or name with port")
	case CommandTimes:
		keys := PrefixRange(timesPrefix)
		return check("times", c.Times.Begin, keys.Contains(c.Times.Begin) && keys.Contains(c.Times.End), "a key of the time keeper")
	case CommandForceRecovery:
		return checkField("datacenter", WordZone, c.Datacenter)
	case CommandMaintenanceOn:
		return checkField("zone", WordZone, c.Zone)
	case CommandConfigure:
		return c.checkConfiguration()
	case CommandPauseBackups, CommandResumeBackups:
		return nil
	case CommandStartBackup, CommandModifyBackup, CommandDiscontinueBackup, CommandAbortBackup, CommandBackupStatus, CommandDeleteBackup:
		return c.checkBackup()
	case CommandStartRestore, CommandAbortRestore, CommandRestoreStatus:
		return c.checkRestore()
	default:
		return WordInvalid.Errorf("there is no command %q", c.Command)
	}
}

func check(field, value string, ok bool, want string) error {
	if ok {
		return nil
	}
	return WordInvalid.Errorf("%s: %q is not %s", field, value, want).With("field", field)
}

func checkField(field string, form Word, value string) error {
	if err := CheckWord(form, value); err != nil {
		return WordInvalid.Errorf("%s: %s", field, fault.Message(err)).With("field", field)
	}
	return nil
}

func (c Call) checkWhere() error {
	for field, path := range map[string]string{"clusterFile": c.ClusterFile, "logDir": c.LogDir, "blobCredentials": c.BlobCredentials} {
		if err := check(field, path, path == "" || isPath(path), "a path"); err != nil {
			return err
		}
	}
	if err := check("logGroup", c.LogGroup, c.LogGroup == "" || CheckWord(WordTag, c.LogGroup) == nil, "the name of a log group"); err != nil {
		return err
	}
	if err := check("traceFormat", c.TraceFormat, c.TraceFormat == "" || c.TraceFormat == "xml" || c.TraceFormat == "json", "xml or json"); err != nil {
		return err
	}
	for i, knob := range c.Knobs {
		if err := check("knobs["+strconv.Itoa(i)+"]", knob, knobForm.MatchString(knob), "--name=value"); err != nil {
			return err
		}
	}
	return nil
}

// isPath accepts what cannot be taken for an option.
func isPath(path string) bool {
	return path != "" && path[0] != '-' && !strings.ContainsAny(path, "\x00\n")
}

func (c Call) checkTargets(form func(string) bool, want string) error {
	if len(c.Targets) == 0 {
		return WordInvalid.Errorf("targets: %s needs at least one", c.Command).With("field", "targets")
	}
	for i, target := range c.Targets {
		if err := check("targets["+strconv.Itoa(i)+"]", target, form(target), want); err != nil {
			return err
		}
	}
	return nil
}

// isExclusion leaves out the words all, failed, FORCE and no_wait, to which exclude and include give a
// meaning.
func isExclusion(target string) bool {
	if strings.HasPrefix(target, LocalityPrefix) {
		return CheckWord(WordLocality, target) == nil
	}
	ip, err := netip.ParseAddr(target)
	return err == nil && ip.Zone() == "" || isIPPort(target)
}

func isIPPort(target string) bool {
	a, err := netip.ParseAddrPort(target)
	return err == nil && a.Addr().Zone() == "" && a.Port() != 0
}

// isCoordinator leaves out the words auto and description=…, to which coordinators gives a meaning.
func isCoordinator(target string) bool {
	a, err := ParseAddress(target)
	return err == nil && a.Port != 0 && !a.FromHostname
}

// checkConfiguration accepts one command of plain words; only regions=… may hold quotes, since it is JSON.
func (c Call) checkConfiguration() error {
	commands, err := ParseCommands(c.Configuration)
	if err != nil || len(commands) != 1 || len(commands[0]) == 0 {
		return check("configuration", c.Configuration, false, "what follows configure")
	}
	for _, word := range commands[0] {
		json, isRegions := strings.CutPrefix(word, "regions=")
		if err := check("configuration", word, isRegions && isRegionText(json) || wordForm.MatchString(word), "a word of a configuration"); err != nil {
			return err
		}
	}
	return nil
}

// isRegionText accepts the characters of the JSON of regions, without escapes.
func isRegionText(json string) bool {
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`"{}[]`, r) {
			return -1
		}
		return r
	}, json)
	return json != "" && (plain == "" || wordForm.MatchString(plain))
}

func (c Call) checkBackup() error {
	b := c.Backup.defaulted()
	if c.Command != CommandDeleteBackup {
		if err := checkField("tag", WordTag, b.Tag); err != nil {
			return err
		}
	}
	switch c.Command {
	case CommandStartBackup, CommandModifyBackup, CommandDeleteBackup:
	default:
		return nil
	}
	if err := check("snapshotPeriodSeconds", strconv.Itoa(b.SnapshotPeriodSeconds), b.SnapshotPeriodSeconds > 0, "a number of seconds"); err != nil {
		return err
	}
	if err := check("encryptionKeyPath", b.EncryptionKeyPath, b.EncryptionKeyPath == "" || isPath(b.EncryptionKeyPath), "a path"); err != nil {
		return err
	}
	return checkURL(b.URL)
}

func (c Call) checkRestore() error {
	r := c.Restore
	if err := checkField("tag", WordTag, r.Tag); err != nil {
		return err
	}
	if c.Command != CommandStartRestore {
		return nil
	}
	for i, k := range r.KeyRanges {
		at := "keyRanges[" + strconv.Itoa(i) + "]."
		if err := checkField(at+"start", WordKey, k.Start); err != nil {
			return err
		}
		if err := checkField(at+"end", WordKey, k.End); err != nil {
			return err
		}
	}
	if err := check("encryptionKeyPath", r.EncryptionKeyPath, r.EncryptionKeyPath == "" || isPath(r.EncryptionKeyPath), "a path"); err != nil {
		return err
	}
	return checkURL(r.URL)
}

// checkURL refuses a URL that holds a secret: what stands in the arguments of a process is seen by
// everybody on its machine. The secret belongs into BlobCredentials.
func checkURL(url string) error {
	if WithoutSecret(url) != url {
		return WordInvalid.Errorf("url: it holds a secret; name a credentials file instead").With("field", "url")
	}
	return check("url", url, isPath(url) && !strings.ContainsAny(url, " \t\r\"'`\\;"), "the URL of a backup")
}
