package fdb

import (
	"regexp"
	"strings"
)

// Restore is what fdbrestore is told about a restore.
type Restore struct {
	Tag               string     `json:"tag,omitempty"` // every restore has its own
	URL               string     `json:"url,omitempty"` // without secrets
	KeyRanges         []KeyRange `json:"keyRanges,omitempty"`
	BackupVersion     *uint64    `json:"backupVersion,omitempty"` // nil: the newest that can be restored
	EncryptionKeyPath string     `json:"encryptionKeyPath,omitempty"`
}

// KeyRange is a range of keys to restore; bytes that are no letters, digits, / or - stand as \xNN.
type KeyRange struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// keyRangesText is the argument of -k.
func keyRangesText(ranges []KeyRange) string {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.Start + " " + r.End
	}
	return strings.Join(texts, ";")
}

// StartRestore starts a restore. It needs a database that is empty in the ranges, and locks it until it ends.
func StartRestore(r Restore) Call { return Call{Command: CommandStartRestore, Restore: r} }

// AbortRestore ends a restore and unlocks the database. What was restored stays.
func AbortRestore(tag string) Call {
	return Call{Command: CommandAbortRestore, Restore: Restore{Tag: tag}}
}

// ReadRestoreStatus reads the status of a tag; RestoreStateOf reads what it prints.
func ReadRestoreStatus(tag string) Call {
	return Call{Command: CommandRestoreStatus, Restore: Restore{Tag: tag}}
}

// RestoreState is the state of a restore, as the status of our object shows it.
type RestoreState string

// The states of a restore.
const (
	RestoreUninitialized RestoreState = "uninitialized"
	RestoreQueued        RestoreState = "queued"
	RestoreStarting      RestoreState = "starting"
	RestoreRunning       RestoreState = "running"
	RestoreCompleted     RestoreState = "completed"
	RestoreAborted       RestoreState = "aborted"
	RestoreUnknown       RestoreState = "Unknown"
)

// Running reports whether the restore has begun and not ended.
func (s RestoreState) Running() bool {
	return s == RestoreQueued || s == RestoreStarting || s == RestoreRunning
}

// restoreStates are the texts of restoreStateText in fdbclient/FileBackupAgent.actor.cpp at 7.1.67,
// 7.3.69 and 7.4.6.
var restoreStates = map[string]RestoreState{
	"unitialized":   RestoreUninitialized, // sic
	"uninitialized": RestoreUninitialized, // at main
	"queued":        RestoreQueued,
	"starting":      RestoreStarting,
	"running":       RestoreRunning,
	"completed":     RestoreCompleted,
	"aborted":       RestoreAborted,
	"Unknown":       RestoreUnknown,
}

// restoreLine is the beginning of what getProgress_impl prints of a restore (the same file), and
// restoreHead what of it names the state. Of a tag that was never used fdbrestore prints a line with an
// empty tag and a UID of zeros.
var (
	restoreLine = regexp.MustCompile(`^Tag: .*  UID: [0-9a-f]{32}  State: [A-Za-z]+  Blocks: [0-9]+/[0-9]+  `)
	restoreHead = regexp.MustCompile(`(?m)^Tag: (.*?)  UID: [0-9A-Za-z]+  State: ([A-Za-z]+)(?:  |$)`)
)

// RestoreStateOf is the state of the restore with this tag. Without a line of the tag, or with lines
// that contradict each other, it is RestoreUnknown: another restore's state is never shown.
func RestoreStateOf(output, tag string) RestoreState {
	state := RestoreUnknown
	for _, line := range restoreHead.FindAllStringSubmatch(strings.ReplaceAll(output, "\r\n", "\n"), -1) {
		if line[1] != tag || tag == "" {
			continue
		}
		found, known := restoreStates[line[2]]
		if !known || state != RestoreUnknown && found != state {
			return RestoreUnknown
		}
		state = found
	}
	return state
}
