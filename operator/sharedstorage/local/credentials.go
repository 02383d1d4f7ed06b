package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// usersName is the folder of the passwords of users, in the folder of secrets.
const usersName = "users"

// UserPassword returns the file with the password of a user that the operator has made.
func (f Folder) UserPassword(user string) string {
	return filepath.Join(string(f), "secret", usersName, user)
}

// Credentials keeps passwords in files of mode 0600: <cluster>/secret/users/<user>.
type Credentials struct{ placement *Placement }

var _ declared.Credentials = Credentials{}

// Credentials returns the passwords of users.
func (s *Placement) Credentials() Credentials { return Credentials{s} }

// Ensure implements declared.Credentials.
func (k Credentials) Ensure(_ context.Context, c port.Ref, l declared.Login) (kept declared.Credential, err error) {
	if err := check(c.Namespace, c.Name); err != nil {
		return kept, err
	}
	kept.Where = Folder(k.placement.folder(c)).UserPassword(l.User)
	err = k.placement.locked(func() error {
		text, err := os.ReadFile(kept.Where)
		if kept.Password = strings.TrimRight(string(text), "\r\n"); kept.Password != "" || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storageFault(err)
		}
		if err := os.MkdirAll(filepath.Dir(kept.Where), 0o700); err != nil {
			return storageFault(err)
		}
		kept.Password = random()
		return storageFault(host.WriteFile(kept.Where, []byte(kept.Password+"\n")))
	})
	return kept, err
}

// Revision implements declared.Credentials, by the size and time of the file.
func (k Credentials) Revision(_ context.Context, c port.Ref, user string, from *v1alpha1.SecretSource) string {
	if check(c.Namespace, c.Name) != nil {
		return ""
	}
	file := Folder(k.placement.folder(c)).UserPassword(user)
	if from != nil {
		file = from.File
	}
	return fileRevision(file)
}

// fileRevision changes when somebody changes a file; empty: there is none.
func fileRevision(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
}

// Remove implements declared.Credentials.
func (k Credentials) Remove(_ context.Context, c port.Ref, user string) error {
	if err := check(c.Namespace, c.Name); err != nil {
		return err
	}
	err := os.Remove(Folder(k.placement.folder(c)).UserPassword(user))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return storageFault(err)
}
