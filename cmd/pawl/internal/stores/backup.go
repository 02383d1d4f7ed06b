package stores

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/secretfile"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/admin"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// PassphraseWrong is the fault of a passphrase that does not decrypt the key file.
var PassphraseWrong = fault.Declare(fault.Kind{
	Code: "PASSPHRASE_WRONG", Class: fault.Invalid,
	Title:  "the passphrase cannot be used, or is not that of the file",
	Remedy: "Give the passphrase that the backup was made with, 12 characters or more, at the terminal or with --passphrase-file (a regular file, chmod 600).",
})

const (
	KeyBackup      = ".key.age" // beside a backup: its master keys, encrypted
	minPassphrase  = 12
	mostPassphrase = 4096 // bytes read of a passphrase file
)

// keyFlags are those of backup and restore for the master key.
type keyFlags struct {
	with             bool
	file, passphrase string
}

func (f *keyFlags) add(cmd *cobra.Command, about string) {
	cmd.Flags().BoolVar(&f.with, "with-key", false, about)
	cmd.Flags().StringVar(&f.file, "key-file", "", "`file` of the master keys (default: beside a SQLite store)")
	cmd.Flags().StringVar(&f.passphrase, "passphrase-file", "", "`file` with the passphrase of --with-key, a regular one that only its owner may read; else it is asked for at the terminal")
}

func (a verbs) backupCommand() *cobra.Command {
	var keys keyFlags
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write a copy while the store is in use",
		Long: `Writes a copy of a SQLite store while it is in use. Secrets stay sealed in it, and
the master key that opens them is not part of it: keep the key file with the
backup, or let --with-key write the key to FILE.key.age, encrypted with a
passphrase. pawl store restore --with-key takes it back; so does age -d.`,
		Example: "  pawl store backup pawl-backup.db\n  pawl store backup pawl-backup.db --with-key --passphrase-file passphrase", Args: cobra.ExactArgs(1),
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error { return a.backup(ctx, args[0], keys) }),
	}
	keys.add(cmd, "write the master key too, encrypted, to FILE.key.age")
	return cmd
}

func (a verbs) restoreCommand() *cobra.Command {
	var keys keyFlags
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Fill a new store from a backup or an export",
		Long: `Fills a store that does not exist yet, or is empty, from a backup or from an
export; - reads an export from standard input. --with-key puts the master key of
FILE.key.age beside the new store.`,
		Example: "  pawl store restore pawl-backup.db --dsn new.db --with-key\n  pawl store restore runs.jsonl --dsn new.db", Args: cobra.ExactArgs(1),
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error { return a.restore(ctx, args[0], keys) }),
	}
	keys.add(cmd, "take the master key of FILE.key.age, and put it beside the store")
	return cmd
}

// backup writes a copy of the store, and of its master keys on request.
func (a verbs) backup(ctx context.Context, file string, flags keyFlags) error {
	o := a.StoreOptions()
	o.KeyFile = flags.file
	sealed, wrote := []byte(nil), ""
	if flags.with {
		keys, err := a.availableKeys(o)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return secrets.MasterKeyMissing.Errorf("there is no master key in %s to back up", o.Keys())
		}
		if _, err := os.Lstat(file + KeyBackup); err == nil {
			return cli.FileWrong.Errorf("%s exists: name a new file", file+KeyBackup)
		}
		passphrase, err := a.passphrase(flags.passphrase, true)
		if err != nil {
			return err
		}
		if sealed, err = encryptKeys(keys, passphrase); err != nil {
			return err
		}
	}
	if err := a.withStore(ctx, cli.Reads, func(k sql.Admin) error { return k.Backup(ctx, file) }); err != nil {
		return err
	}
	if sealed != nil {
		wrote = file + KeyBackup
		if err := writeNew(wrote, sealed); err != nil {
			return errors.Join(err, os.Remove(file))
		}
	}
	seals, err := a.keysOf(ctx, file, o)
	if err != nil {
		return err
	}
	if flags.with && seals.Missing != nil { // the available key is not that of the store
		return errors.Join(secrets.MasterKeyUnknown.Errorf("the store is sealed with %s, and %s holds %s", strings.Join(seals.Keys, ", "), o.Keys(), strings.Join(seals.Given, ", ")),
			os.Remove(file), os.Remove(wrote))
	}
	return a.Emit(backupView{File: file, EncryptedWith: seals.Keys, KeyFile: wrote}, []string{file}, func() string {
		switch text := "backed up to " + file + "\n"; {
		case wrote != "":
			return text + "the master key is in " + wrote + ", encrypted with the passphrase\n"
		case len(seals.Keys) > 0:
			return text + "its secrets are sealed with master key " + strings.Join(seals.Keys, ", ") + ", which is not in it: keep a copy of " + a.keySource(o) + " too, or back up with --with-key\n"
		default:
			return text
		}
	})
}

// backupView is a backup that was written.
type backupView struct {
	File          string   `json:"file"`
	EncryptedWith []string `json:"encryptedWith"` // names of master keys
	KeyFile       string   `json:"keyFile,omitempty"`
}

// restore fills a store, and puts the master keys of the backup beside it on request.
func (a verbs) restore(ctx context.Context, from string, flags keyFlags) error {
	o := a.StoreOptions()
	o.KeyFile = flags.file
	if !flags.with {
		return a.restoreStore(ctx, from, o)
	}
	if from == "-" || a.inDatabase() && flags.file == "" {
		return cli.Usage.Errorf("--with-key reads FILE%s and writes a key file: name FILE, and --key-file if the store is PostgreSQL", KeyBackup)
	}
	data, err := os.ReadFile(from + KeyBackup)
	if err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	if _, err := os.Lstat(o.Keys()); err == nil {
		return cli.FileWrong.Errorf("%s exists: name another with --key-file, or restore without --with-key", o.Keys())
	}
	passphrase, err := a.passphrase(flags.passphrase, false)
	if err != nil {
		return err
	}
	keys, err := decryptKeys(data, passphrase)
	if err != nil {
		return err
	}
	if err := secrets.WriteMasterKeys(o.Keys(), keys); err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	if err := a.restoreStore(ctx, from, o); err != nil {
		return errors.Join(err, os.Remove(o.Keys()))
	}
	return nil
}

// keyReport lists the master keys that a store was encrypted with, and those that are available.
type keyReport struct {
	Keys    []string // that encrypted the store's secrets
	Given   []string
	Missing []string // of Keys
}

// keysOf compares a file with the keys that belong to a store.
func (a verbs) keysOf(ctx context.Context, file string, o backend.StoreOptions) (keyReport, error) {
	ids, err := admin.EncryptedWith(ctx, file)
	return a.reportKeys(ids, o), err
}

func (a verbs) reportKeys(ids []string, o backend.StoreOptions) keyReport {
	s := keyReport{Keys: ids}
	if keys, err := a.availableKeys(o); err == nil { // keys that cannot be read are none
		s.Given = secrets.KeyIDs(keys)
	}
	for _, id := range s.Keys {
		if !slices.Contains(s.Given, id) {
			s.Missing = append(s.Missing, id)
		}
	}
	return s
}

// text describes the keys of a store for people; "" if nothing is encrypted.
func (s keyReport) text(where string) string {
	switch {
	case len(s.Keys) == 0:
		return ""
	case len(s.Missing) == 0:
		return "its secrets are sealed with master key " + strings.Join(s.Keys, ", ") + ", from " + where + ": keep a copy of it with the backups\n"
	default:
		return "its secrets are sealed with master key " + strings.Join(s.Missing, ", ") + ", which is not in " + where + ": without it they cannot be opened (MASTER_KEY_UNKNOWN)\n"
	}
}

// availableKeys returns the master keys of a store; it creates none.
func (a verbs) availableKeys(o backend.StoreOptions) ([][]byte, error) {
	if o.KeyFile != "" {
		if _, err := os.Stat(o.KeyFile); err != nil {
			return nil, secrets.MasterKeyMissing.Errorf("%w", err)
		}
	}
	return o.MasterKeys()
}

// keySource says where the master keys of a store come from.
func (a verbs) keySource(o backend.StoreOptions) string {
	if o.KeyFile == "" && (os.Getenv("PAWL_MASTER_KEY") != "" || o.Shared()) {
		return "PAWL_MASTER_KEY"
	}
	return o.Keys()
}

// passphrase reads the passphrase of a key backup from a file, or prompts for it:
// twice for a new one.
func (a verbs) passphrase(file string, anew bool) (string, error) {
	var text string
	if file != "" {
		all, err := secretfile.Read(file)
		if err != nil {
			return "", PassphraseWrong.Errorf("%w", err)
		}
		line, _, _ := strings.Cut(all[:min(len(all), mostPassphrase)], "\n")
		text = strings.TrimRight(line, "\r\n")
	} else {
		tty, ok := a.In.(*os.File)
		if !ok || !term.IsTerminal(int(tty.Fd())) { //nolint:gosec // a file descriptor
			return "", cli.Usage.Errorf("--with-key needs a passphrase: there is no terminal to ask at, so give --passphrase-file")
		}
		req := func(what string) (string, error) {
			fmt.Fprint(a.Err, what)
			secret, err := term.ReadPassword(int(tty.Fd())) //nolint:gosec // a file descriptor
			fmt.Fprintln(a.Err)
			return string(secret), err
		}
		var err error
		if text, err = req("Passphrase of the key backup: "); err != nil {
			return "", err
		}
		if anew {
			again, err := req("The same again: ")
			if err != nil {
				return "", err
			}
			if again != text {
				return "", PassphraseWrong.Errorf("the two passphrases differ")
			}
		}
	}
	if n := utf8.RuneCountInString(text); anew && n < minPassphrase {
		return "", PassphraseWrong.Errorf("the passphrase has %d characters, at least %d are wanted", n, minPassphrase)
	}
	return text, nil
}

// encryptKeys writes master keys as a key file, encrypted with a passphrase as age does it (scrypt).
func encryptKeys(keys [][]byte, passphrase string) ([]byte, error) {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, PassphraseWrong.Errorf("%w", err)
	}
	var out bytes.Buffer
	lines := armor.NewWriter(&out)
	w, err := age.Encrypt(lines, to)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if _, err := io.WriteString(w, base64.StdEncoding.EncodeToString(key)+"\n"); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), lines.Close())
	return out.Bytes(), err
}

// decryptKeys reads what encryptKeys wrote. PASSPHRASE_WRONG, MASTER_KEY_INVALID.
func decryptKeys(data []byte, passphrase string) ([][]byte, error) {
	who, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, PassphraseWrong.Errorf("%w", err)
	}
	r, err := age.Decrypt(armor.NewReader(bytes.NewReader(data)), who)
	if other := (*age.NoIdentityMatchError)(nil); errors.As(err, &other) {
		return nil, PassphraseWrong.Errorf("it does not open the key backup")
	} else if err != nil {
		return nil, cli.FileWrong.Errorf("the key backup: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return nil, cli.FileWrong.Errorf("the key backup: %w", err)
	}
	return secrets.ParseMasterKeys(string(text))
}

// writeNew writes a file that was not there, for its owner only.
func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return cli.FileWrong.Errorf("%w", err)
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return cli.FileWrong.Errorf("%w", errors.Join(err, os.Remove(path)))
	}
	return nil
}
