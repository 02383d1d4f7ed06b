// Package pgbackrest has the files, arguments and answers of pgBackRest, the program that archives
// the log of PostgreSQL and takes and restores its backups.
//
//	conf, err := pgbackrest.Conf(repository, pgbackrest.Server{Data: dir, Port: 5432, …})
//	pgbackrest --config FILE --stanza NAME backup --type full
//	list, err := pgbackrest.ParseInfo(output of: info --output json)
//
// Nothing here starts a process. https://pgbackrest.org/configuration.html is the reference.
package pgbackrest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Program is the name of the program.
const Program = "pgbackrest"

// keyAnnotation is the annotation of a backup with the key of its order.
const keyAnnotation = "pawl-key"

// Server is the engine that pgBackRest works on.
type Server struct {
	Data   string // its data directory
	Port   int32
	Socket string // folder of its socket, as the process of pgBackRest reaches it
	Run    string // folder for locks
	CAFile string // file with S3.CA; needed if that is set
}

var stanzaForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// Check rejects a repository that cannot be written into a configuration. Its error is for people.
func Check(r port.Repository) error {
	one := func(name, value string) error {
		if strings.ContainsAny(value, "\n\r\x00") || strings.TrimSpace(value) != value {
			return fmt.Errorf("%s: it is one line without spaces around it", name)
		}
		return nil
	}
	var problems []error
	if !stanzaForm.MatchString(r.Stanza) {
		problems = append(problems, fmt.Errorf("stanza: %q is not made of letters, digits and the signs - _ . alone", r.Stanza))
	}
	if r.S3 == nil && r.Folder == "" {
		problems = append(problems, errors.New("neither a folder nor an object store is named"))
	}
	if r.Folder != "" && !strings.HasPrefix(r.Folder, "/") {
		problems = append(problems, fmt.Errorf("folder: %q does not begin with /", r.Folder))
	}
	if r.KeepBackups < 0 || r.KeepDays < 0 || r.KeepBackups > 0 && r.KeepDays > 0 {
		problems = append(problems, errors.New("retention: either backups or days, and no negative number"))
	}
	problems = append(problems, one("folder", r.Folder), one("passphrase", r.Passphrase))
	if s := r.S3; s != nil {
		if s.Bucket == "" || s.Endpoint == "" || s.Region == "" || s.KeyID == "" || s.Secret == "" {
			problems = append(problems, errors.New("s3: bucket, endpoint, region, key and secret are needed"))
		}
		for name, value := range map[string]string{"bucket": s.Bucket, "endpoint": s.Endpoint, "region": s.Region, "key": s.KeyID, "secret": s.Secret} {
			problems = append(problems, one("s3."+name, value))
		}
	}
	return errors.Join(problems...)
}

// Conf returns the configuration file for a repository and an engine. It holds the secrets of the
// repository.
func Conf(r port.Repository, s Server) (string, error) {
	if err := Check(r); err != nil {
		return "", err
	}
	if !strings.HasPrefix(s.Data, "/") || strings.ContainsAny(s.Data+s.Socket+s.Run+s.CAFile, "\n\r") {
		return "", fmt.Errorf("%q is no path for a configuration", s.Data)
	}
	var b strings.Builder
	set := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s=%s\n", name, value)
		}
	}
	b.WriteString("[global]\n")
	set("repo1-path", cmp.Or(r.Folder, "/"))
	if r.Passphrase != "" {
		set("repo1-cipher-type", "aes-256-cbc")
		set("repo1-cipher-pass", r.Passphrase)
	}
	if o := r.S3; o != nil {
		set("repo1-type", "s3")
		set("repo1-s3-bucket", o.Bucket)
		set("repo1-s3-endpoint", o.Endpoint)
		set("repo1-s3-region", o.Region)
		set("repo1-s3-key", o.KeyID)
		set("repo1-s3-key-secret", o.Secret)
		if o.PathStyle {
			set("repo1-s3-uri-style", "path")
		}
		if o.CA != "" {
			set("repo1-storage-ca-file", s.CAFile)
		}
	}
	switch {
	case r.KeepDays > 0:
		set("repo1-retention-full-type", "time")
		set("repo1-retention-full", strconv.Itoa(r.KeepDays))
	case r.KeepBackups > 0:
		set("repo1-retention-full", strconv.Itoa(r.KeepBackups))
	default:
		set("repo1-retention-full", "9999999") // the greatest: all stay
	}
	if r.MaxWaiting > 0 {
		set("archive-push-queue-max", strconv.FormatInt(r.MaxWaiting, 10))
	}
	set("compress-type", "lz4")
	set("start-fast", "y")
	set("io-timeout", "20") // the object store that refuses is asked again for as long
	set("lock-path", s.Run)
	set("log-level-file", "off")
	set("log-level-stderr", "off")
	set("log-level-console", "warn")
	fmt.Fprintf(&b, "\n[%s]\n", r.Stanza)
	set("pg1-path", s.Data)
	set("pg1-port", strconv.Itoa(int(s.Port)))
	set("pg1-socket-path", s.Socket)
	set("pg1-user", "postgres")
	return b.String(), nil
}

// NoArchive is the archive_command of an engine without a repository. archive_mode is always on, because
// it cannot be switched on without a restart.
const NoArchive = "/bin/true"

// ArchiveCommand is the archive_command of an engine with this configuration file. What pgBackRest
// says goes to a file, because the log of the engine has only its exit code. What it says of a segment
// that it gave up is kept in another file, before the engine takes that segment for archived.
func ArchiveCommand(program, conf, stanza, said, dropped string) string {
	return shell(program) + " --config=" + shell(conf) + " --stanza=" + shell(stanza) + ` archive-push "%p" >` + shell(said) + " 2>&1" +
		" && { ! grep -q " + shell(droppedWords) + " " + shell(said) + " || cp " + shell(said) + " " + shell(dropped) + "; }"
}

// droppedWords are in what archive-push says when it gives up a file of the log.
const droppedWords = "dropped WAL file"

var droppedFile = regexp.MustCompile(droppedWords + ` '([0-9A-F.a-z]+)'`)

// Dropped returns the file of the log that pgBackRest says to have given up; "": none.
func Dropped(said string) string {
	if m := droppedFile.FindStringSubmatch(said); m != nil {
		return m[1]
	}
	return ""
}

// shell quotes a word for sh. In a command of PostgreSQL % begins a placeholder.
func shell(word string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(word, "'", `'\''`), "%", "%%") + "'"
}

// BackupArgs are the arguments of a backup.
func BackupArgs(order port.BackupOrder) []string {
	return []string{"backup", "--type=" + string(cmp.Or(order.Type, port.FullBackup)), "--annotation=" + keyAnnotation + "=" + order.Key}
}

// RestoreArgs are the arguments of a restore of this backup into an empty folder.
func RestoreArgs(r port.Restore, label, into string) []string {
	args := []string{"restore", "--pg1-path=" + into, "--set=" + label}
	switch {
	case r.Consistent:
		args = append(args, "--type=immediate", "--target-action=promote")
	case r.Name != "":
		args = append(args, "--type=name", "--target="+r.Name, "--target-action=promote")
	case !r.Time.IsZero():
		args = append(args, "--type=time", "--target="+r.Time.UTC().Format("2006-01-02 15:04:05.999999")+"+00", "--target-action=promote")
	}
	return args
}

// Choose returns the label of the backup that a restore begins with. The newest one that ended
// before the target, because a younger one holds what is to be left out. point is where the restore
// point of the target is; 0: the archive has none, or it was not looked for, and a label is taken as it is. BACKUP_MISSING if there is no such backup.
func Choose(r port.Restore, point uint64, have []port.Backup) (port.Backup, error) {
	if len(have) == 0 {
		return port.Backup{}, port.BackupMissing.Errorf("%s has no complete backup", r.Repository.Stanza)
	}
	target := r.Time.UTC().Format(time.RFC3339)
	if r.Name != "" {
		if point == 0 && r.Label == "" {
			return port.Backup{}, port.RestoreTargetMissing.Errorf("the archive of %s has no restore point %s", r.Repository.Stanza, r.Name)
		}
		target = fmt.Sprintf("restore point %s at %X/%X", r.Name, point>>32, uint32(point))
	}
	late := func(b port.Backup) bool {
		if r.Name != "" && point == 0 {
			return false
		}
		if r.Name != "" {
			end, err := parseLSN(b.StopLSN)
			return err != nil || end > point
		}
		return !r.Time.IsZero() && !b.Ended.Before(r.Time)
	}
	for _, b := range slices.Backward(have) {
		switch {
		case r.Label != "" && b.Label != r.Label:
		case !late(b):
			return b, nil
		case r.Label != "":
			return port.Backup{}, port.BackupMissing.Errorf("backup %s ended at %s, after the target %s", b.Label, b.Ended.UTC().Format(time.RFC3339), target)
		}
	}
	if r.Label != "" {
		return port.Backup{}, port.BackupMissing.Errorf("%s has no backup %s", r.Repository.Stanza, r.Label)
	}
	return port.Backup{}, port.BackupMissing.Errorf("the oldest backup of %s ended at %s, after the target %s", r.Repository.Stanza, have[0].Ended.UTC().Format(time.RFC3339), target)
}

func parseLSN(text string) (at uint64, err error) {
	var high, low uint32
	_, err = fmt.Sscanf(text, "%X/%X", &high, &low)
	return uint64(high)<<32 | uint64(low), err
}

type info struct {
	Name   string `json:"name"`
	Status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
	Backup []struct {
		Annotation map[string]string `json:"annotation"`
		Error      bool              `json:"error"`
		Label      string            `json:"label"`
		Type       string            `json:"type"`
		LSN        struct {
			Start string `json:"start"`
			Stop  string `json:"stop"`
		} `json:"lsn"`
		Info struct {
			Size       int64 `json:"size"`
			Repository struct {
				Delta int64 `json:"delta"`
			} `json:"repository"`
		} `json:"info"`
		Timestamp struct {
			Start int64 `json:"start"`
			Stop  int64 `json:"stop"`
		} `json:"timestamp"`
	} `json:"backup"`
}

// ParseInfo reads the answer of info, oldest first. A stanza that does not exist has no backups.
func ParseInfo(text string) ([]port.Backup, error) {
	var all []info
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("info: %w", err)
	}
	list := []port.Backup{}
	for _, stanza := range all {
		if stanza.Status.Code == infoOther {
			return nil, port.RepositoryFailed.Errorf("%s", stanza.Status.Message)
		}
		for _, b := range stanza.Backup {
			one := port.Backup{State: port.JobDone, Key: b.Annotation[keyAnnotation], Label: b.Label, Type: port.BackupType(b.Type),
				StartLSN: b.LSN.Start, StopLSN: b.LSN.Stop, Size: b.Info.Size, Stored: b.Info.Repository.Delta,
				Started: time.Unix(b.Timestamp.Start, 0).UTC(), Ended: time.Unix(b.Timestamp.Stop, 0).UTC()}
			if b.Error {
				one.Code, one.Message = string(port.BackupDamaged.Code), "pages did not fit their checksums while it was taken"
			}
			list = append(list, one)
		}
	}
	return list, nil
}

// infoOther is the status of a stanza that info could not read.
const infoOther = 99

// The exit codes of pgBackRest that have a fault of their own: its src/build/error/error.yaml.
const (
	exitBackupAbsent = 75
	exitStanzaOther  = 28 // backup and stanza of another database
	exitArchiveOther = 44
)

// Fault makes a fault of what pgBackRest said with an exit code; other is the fault where it means
// nothing special.
func Fault(other *fault.Kind, exit int, said string) error {
	text := Message(said)
	switch {
	case exit == exitStanzaOther, exit == exitArchiveOther && strings.Contains(said, "system-id"):
		return port.RepositoryTaken.Errorf("%s", text)
	case conflict.MatchString(text):
		return port.ArchiveConflict.Errorf("%s", text)
	case exit == exitBackupAbsent:
		return port.BackupMissing.Errorf("%s", text)
	}
	return other.Errorf("%s", text)
}

// ArchiveFault makes a fault of what archive-push said.
func ArchiveFault(said string) error { return Fault(port.ArchiveFailed, 0, said) }

// conflict is what archive-push says of a file that is in the archive with another content.
var conflict = regexp.MustCompile(`already exists in .* with a different checksum`)

var (
	errorLine = regexp.MustCompile(`(?m)P\d+\s+ERROR: (.*(?:\n +.*)*)`)
	marker    = regexp.MustCompile(`^\[\d+\]: `)
)

// Message returns the errors in what pgBackRest said, on one line.
func Message(said string) string {
	var found []string
	for _, m := range errorLine.FindAllStringSubmatch(said, -1) {
		text, _, _ := strings.Cut(marker.ReplaceAllString(strings.TrimSpace(m[1]), ""), "HINT:")
		text, _, _ = strings.Cut(text, "*** Request Headers ***")
		text = shortened(strings.Join(strings.Fields(text), " "))
		if !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	if len(found) == 0 {
		return shortened(strings.Join(strings.Fields(said), " "))
	}
	return shortened(strings.Join(found, "; "))
}

// limit is the number of bytes of a message.
const limit = 600

func shortened(text string) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
