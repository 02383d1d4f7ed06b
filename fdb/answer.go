package fdb

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb/internal/cli"
	"github.com/pawl-dev/pawl/fdb/internal/texts"
)

// Judge says what is known of a call's effect after its process has ended, by what it printed:
//
//	a text that the tool does not print at this version    Unknown(UnknownText)
//	a text that leaves it open, or none that decides       Unknown
//	a text that refuses                                    Refused
//	a text that confirms, with its exit code               Ok
//	nothing, exit 0, of a command that says nothing        Ok
//
// An exit code below 0 is a process that a signal has ended. Exit codes alone never decide. The texts
// of an unknown version are those that TextLine names.
func Judge(c Call, v Version, exit int, stdout, stderr string) Result {
	line, _ := TextLine(v)
	r := reading{call: c, line: line, told: map[string]bool{}}
	if c.Reads() && c.Command != CommandConnection {
		stdout = r.document(stdout)
	}
	r.read(stdout)
	r.read(stderr)
	return r.result(exit)
}

// TextLine is the major.minor whose texts Judge uses for a version: its own, or the newest that is not
// newer, or else the oldest. known is false for a version whose texts nobody has read.
func TextLine(v Version) (line string, known bool) {
	line = texts.Lines[0].Line
	for _, l := range texts.Lines {
		if l.Line == v.Short() {
			return l.Line, true
		}
		if at, err := ParseVersion(l.Line + ".0"); err == nil && at.Compare(v) < 0 {
			line = l.Line
		}
	}
	return line, false
}

// silent reports whether a command prints nothing when it succeeds.
func (c Command) silent() bool {
	switch c {
	case CommandInclude, CommandMaintenanceOn, CommandMaintenanceOff, CommandModifyBackup, CommandForceRecovery:
		return true
	default:
		return false
	}
}

// Reads reports whether a call changes nothing.
func (c Call) Reads() bool {
	switch c.Command {
	case CommandStatus, CommandConnection, CommandVersion, CommandBackupStatus, CommandRestoreStatus:
		return true
	default:
		return false
	}
}

// reading is what was understood of the output of a call.
type reading struct {
	call Call
	line string // major.minor of the texts

	unread  *hit // the first line that is no known text
	doubted *hit // the first of its effect; so the next two
	denied  *hit
	done    *hit
	missing *hit            // an address without a process
	noMatch *hit            // a locality without a server
	told    map[string]bool // addresses that exclude told about
	answer  bool            // a call that reads got what it asked for
}

// hit is a line and the text that it is.
type hit struct {
	effect  texts.Effect
	reason  Reason
	exit    int // the exit code that goes with texts.Done
	printed string
}

func (h *hit) result(o ResultOutcome) Result {
	return Result{Outcome: o, Reason: h.reason, Text: clipped(h.printed)}
}

func (r *reading) read(output string) {
	for printed := range strings.FieldsFuncSeq(output, func(c rune) bool { return c == '\n' || c == '\r' }) {
		printed = strings.TrimSpace(printed)
		if printed == "" || r.isEcho(printed) {
			continue
		}
		t, match := texts.Find(string(r.call.Command), string(r.call.Tool()), r.line, printed)
		if match == nil {
			first(&r.unread, &hit{reason: UnknownText, printed: printed})
			continue
		}
		r.note(&hit{effect: t.Effect, reason: Reason(t.Reason), exit: t.Exit, printed: printed}, match)
	}
}

// isEcho recognises the commands that fdbcli repeats when it was given several, and the addresses that
// kill lists.
func (r *reading) isEcho(printed string) bool {
	switch {
	case r.call.Tool() != ToolCLI:
		return false
	case printed == ">>>" || strings.HasPrefix(printed, ">>> "):
		return r.call.Command == CommandKill || r.call.Command == CommandConnection || r.call.Command == CommandTimes
	default:
		return r.call.Command == CommandKill && isIPPort(printed)
	}
}

func (r *reading) note(h *hit, match []string) {
	if r.call.Command == CommandExclude {
		r.noteExclusion(h, match)
	}
	switch h.effect {
	case texts.Doubted:
		first(&r.doubted, h)
	case texts.Denied:
		first(&r.denied, h)
	case texts.Done:
		first(&r.done, h)
	}
}

// noteExclusion gives the lines about single targets their meaning. Without waiting, data that still
// moves and a coordinator are no refusal: the exclusion has begun.
func (r *reading) noteExclusion(h *hit, match []string) {
	switch h.reason {
	case NoServers:
		first(&r.noMatch, h)
		return
	case ProcessMissing:
		first(&r.missing, h)
	case ExclusionInProgress, StillCoordinator:
		if r.call.NoWait {
			h.effect = texts.Done
		}
	}
	if (h.effect == texts.Done || h.reason == ExclusionInProgress) && h.reason != StillCoordinator && len(match) > 1 {
		r.told[plainTarget(match[1])] = true
	}
	if r.call.NoWait && h.effect == texts.Done {
		h.reason = ""
	}
}

func (r *reading) result(exit int) Result {
	switch {
	case r.unread != nil:
		return r.unread.result(Unknown)
	case r.doubted != nil:
		return r.doubted.result(Unknown)
	case exit < 0:
		return Result{Reason: ToolEnded}
	case r.denied != nil:
		return r.denied.result(Refused)
	}
	if r.call.Command == CommandExclude {
		if doubt, ok := r.exclusionDoubt(); ok {
			return doubt
		}
	}
	switch {
	case r.done != nil && exit == r.done.exit:
		result := r.done.result(Ok)
		if result.Reason == "" {
			result.Text = ""
		}
		return result
	case r.done != nil:
		return Result{Reason: UnknownExit, Text: clipped(strconv.Itoa(exit) + ": " + r.done.printed)}
	case exit == 0 && (r.answer || r.call.Command.silent()):
		return Result{Outcome: Ok}
	default:
		return Result{Reason: NoAnswer, Text: "exit code " + strconv.Itoa(exit)}
	}
}

// exclusionDoubt finds what keeps an exclusion from being Ok although nothing refused it.
func (r *reading) exclusionDoubt() (Result, bool) {
	addresses := 0
	for _, target := range r.call.Targets {
		if strings.HasPrefix(target, LocalityPrefix) {
			continue
		}
		addresses++
		if r.done != nil && !r.told[plainTarget(target)] {
			return Result{Reason: IncompleteAnswer, Text: "nothing is told about " + target}, true
		}
	}
	switch {
	case r.noMatch != nil && (r.done == nil || !r.call.NoWait && addresses == 0):
		return r.noMatch.result(Unknown), true // only an address proves what a locality does not resolve to
	case r.missing != nil && r.call.NoWait:
		return Result{Reason: ProcessMissing, Text: clipped(r.missing.printed)}, true
	default:
		return Result{}, false
	}
}

// document takes what a call has read out of its output and returns the rest.
func (r *reading) document(stdout string) (rest string) {
	switch r.call.Command {
	case CommandStatus, CommandBackupStatus:
		begin, end := strings.IndexByte(stdout, '{'), strings.LastIndexByte(stdout, '}')
		if begin < 0 || end < begin {
			return stdout
		}
		r.answer = true
		if r.call.Command == CommandBackupStatus {
			s, err := ParseBackupStatus([]byte(stdout))
			r.answer = err == nil && s.Tag == r.call.Backup.defaulted().Tag
		}
		return stdout[:begin] + "\n" + stdout[end+1:]
	case CommandRestoreStatus:
		r.answer = true // none is an answer too
		var others []string
		for line := range strings.SplitSeq(stdout, "\n") {
			if !restoreLine.MatchString(line) && !restoreTail.MatchString(line) && strings.TrimSpace(line) != noRestores {
				others = append(others, line)
			}
		}
		return strings.Join(others, "\n")
	default: // CommandVersion
		_, err := Protocol(stdout)
		r.answer = err == nil
		if r.answer {
			return ""
		}
		return stdout
	}
}

// A restore that has failed once is printed on two lines: behind its last error the line ends
// (getProgress_impl and getFullStatus_impl in fdbclient/FileBackupAgent.actor.cpp at 7.1.67, 7.3.69 and
// 7.4.6). noRestores is what comes after 7.4 when there is none (fdbclient/FileBackupAgent.cpp at
// main).
var restoreTail = regexp.MustCompile(`^  URL: .*  AddPrefix: '.*'  RemovePrefix: '.*'  Version: -?[0-9]+\r?$`)

const noRestores = "No restores found."

// protocolLine is printed by --version (printVersion in fdbcli/fdbcli.actor.cpp at 7.1.67, 7.3.69 and
// 7.4.6).
var protocolLine = regexp.MustCompile(`(?m)^protocol ([0-9a-f]+)\r?$`)

// Protocol is the protocol that a tool speaks, in hexadecimal as --version prints it. Versions with the
// same protocol understand each other.
func Protocol(versionOutput string) (string, error) {
	match := protocolLine.FindAllStringSubmatch(versionOutput, -1)
	if len(match) != 1 {
		return "", AnswerUnreadable.Errorf("%q names no protocol", clipped(versionOutput))
	}
	return match[0][1], nil
}

// connectionAnswer is what ReadConnection prints.
var connectionAnswer = regexp.MustCompile("(?m)^`" + regexp.QuoteMeta(cli.Printable(coordinatorsKey)) + "' is `(.*)'\r?$")

// ConnectionOf is the connection string that ReadConnection has printed.
func ConnectionOf(stdout string) (Connection, error) {
	match := connectionAnswer.FindAllStringSubmatch(stdout, -1)
	if len(match) != 1 {
		return Connection{}, AnswerUnreadable.Errorf("%q is no connection string", clipped(stdout))
	}
	value, ok := cli.Unprintable(match[0][1])
	if !ok {
		return Connection{}, AnswerUnreadable.Errorf("%q is no connection string", clipped(stdout))
	}
	return ParseConnection(string(value))
}

func first(h **hit, found *hit) {
	if *h == nil {
		*h = found
	}
}

// plainTarget is an IP or an IP with port in one of its spellings.
func plainTarget(target string) string {
	if ip, err := netip.ParseAddr(target); err == nil {
		return ip.String()
	}
	if a, err := netip.ParseAddrPort(target); err == nil {
		return a.String()
	}
	return target
}

// maxResultText is how much of a text a result keeps, in bytes.
const maxResultText = 300

// account is key, secret and token in a URL.
var account = regexp.MustCompile(`(://[^:/@\s'"]*):[^@\s'"]*@`)

// clipped is a text without secrets and of bounded length.
func clipped(printed string) string {
	printed = strings.ToValidUTF8(account.ReplaceAllString(strings.TrimSpace(printed), "$1@"), "?")
	if len(printed) > maxResultText {
		printed = strings.ToValidUTF8(printed[:maxResultText], "") + "…"
	}
	return printed
}
