package fdb

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

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
