package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// StatusFolder is the field of a standalone cluster's status with the folder of its processes and files.
const StatusFolder = "folder"

// Folder is the folder of one cluster, for programs that read its files and change nothing.
type Folder string

// The files with a log, in the folder of an instance or of the manager.
const (
	AgentLog   = "agent.log"
	ManagerLog = "manager.log"
)

// Readable returns an error if this process cannot read the folder: it is another user's, or on another machine.
func (f Folder) Readable() error {
	_, err := f.Password()
	return err
}

// Password returns the password of the superuser postgres.
func (f Folder) Password() (string, error) { return f.secret("password") }

// Secrets returns the secrets of the cluster: password, token, and the passwords of users.
func (f Folder) Secrets() ([]string, error) {
	password, err := f.secret("password")
	token, tokenErr := f.secret("token")
	all := []string{password, token}
	users, usersErr := os.ReadDir(f.UserPassword(""))
	if errors.Is(usersErr, fs.ErrNotExist) {
		usersErr = nil
	}
	for _, user := range users {
		text, err := f.secret(filepath.Join(usersName, user.Name()))
		all, usersErr = append(all, text), errors.Join(usersErr, err)
	}
	return all, errors.Join(err, tokenErr, usersErr)
}

func (f Folder) secret(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(f), "secret", name))
	return strings.TrimSpace(string(text)), err
}

// Instance returns the folder of an instance.
func (f Folder) Instance(name string) string { return filepath.Join(string(f), "instances", name) }

// Manager returns the folder of the cluster manager.
func (f Folder) Manager() string { return filepath.Join(string(f), "manager") }

// Config returns the configuration of the agent of an instance.
func (f Folder) Config(instance string) (c postgres.Config, err error) {
	if err := check(instance); err != nil {
		return c, fs.ErrNotExist
	}
	err = host.ReadJSON(filepath.Join(f.Instance(instance), configName), &c)
	return c, err
}
