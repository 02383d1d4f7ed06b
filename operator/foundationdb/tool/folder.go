package tool

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// The files in the folder of a call.
const (
	clusterFile     = "fdb.cluster"
	credentialsFile = "blob-credentials.json"
)

// makeFolder makes the folder of a call and completes the call by what is in it. Nobody else knows the
// folder, so its files are whole before anybody reads them.
func (j *job) makeFolder(credentials []byte) (err error) {
	if j.dir, err = os.MkdirTemp(j.d.root, "call-"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(j.dir)
		}
	}()
	c, o := &j.call, j.d.options
	c.Version, c.ClusterFile = j.at.Version, ""
	if len(j.at.Connection.Coordinators) > 0 {
		c.ClusterFile = filepath.Join(j.dir, clusterFile)
		j.given = j.d.known(j.at.Connection)
		if err := os.WriteFile(c.ClusterFile, []byte(j.given.String()+"\n"), 0o600); err != nil {
			return err
		}
	}
	if credentials != nil {
		c.BlobCredentials = filepath.Join(j.dir, credentialsFile)
		if err := os.WriteFile(c.BlobCredentials, credentials, 0o600); err != nil {
			return err
		}
	}
	for _, path := range []*string{&c.BlobCredentials, &c.Backup.EncryptionKeyPath, &c.Restore.EncryptionKeyPath} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil { // the tool runs in another folder
			return err
		}
	}
	if c.LogDir == "" {
		c.LogDir = o.LogDir
	}
	if c.LogGroup == "" {
		c.LogGroup = o.LogGroup
	}
	if c.TraceFormat == "" {
		c.TraceFormat = o.TraceFormat
	}
	return c.Check()
}

// command is the process of a job.
func (j *job) command(stdin *os.File) *exec.Cmd {
	cmd := &exec.Cmd{Path: j.path, Args: append([]string{j.path}, j.argv...), Dir: j.dir, Env: j.d.options.environment(j.dir)}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	return cmd
}

// maxLearned is how many connections are remembered.
const maxLearned = 1000

// known is what a tool begins with whose caller has this connection: a tool that meets coordinators which
// are no longer in office writes the new ones into its cluster file.
func (d *Database) known(c fdb.Connection) fdb.Connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	if learned, ok := d.learned[c.String()]; ok {
		return learned
	}
	return c
}

// learn reads the cluster file again after a call that went well.
func (j *job) learn() {
	if j.call.ClusterFile == "" {
		return
	}
	text, err := os.ReadFile(j.call.ClusterFile)
	if err != nil {
		return // it is not needed any more
	}
	now, err := fdb.ParseConnection(string(text))
	if err != nil || now.String() == j.given.String() {
		return
	}
	j.d.mu.Lock()
	defer j.d.mu.Unlock()
	if len(j.d.learned) >= maxLearned {
		clear(j.d.learned)
	}
	j.d.learned[j.at.Connection.String()] = now
}

// forget has the next call begin with its caller's connection: what was learned did not help.
func (j *job) forget() {
	j.d.mu.Lock()
	defer j.d.mu.Unlock()
	delete(j.d.learned, j.at.Connection.String())
}

// withoutSecret takes secret and token out of a call: the content of a credentials file holds them. A caller that
// keeps them apart has put that content into Secrets; else they are taken out of the URL.
func withoutSecret(call fdb.Call) (plain fdb.Call, credentials []byte, secrets []string) {
	for _, at := range []*string{&call.Backup.URL, &call.Restore.URL} {
		u, err := url.Parse(*at)
		if err != nil || u.User == nil {
			continue // Check refuses what holds a secret nevertheless
		}
		secret, ok := u.User.Password()
		if !ok || strings.Contains(u.User.Username()+secret, "@") {
			continue
		}
		credentials, _ = fdb.BlobStore{AccountName: u.User.Username() + ":" + secret + "@" + u.Host}.Credentials()
		secrets = append(secrets, strings.SplitN(secret, ":", 2)...)
		*at = fdb.WithoutSecret(*at)
	}
	if call.Secrets != "" {
		credentials = []byte(call.Secrets)
		secrets = append(secrets, secretsIn(credentials)...)
		call.Secrets = ""
	}
	return call, credentials, secrets
}

// secretsIn returns secrets and tokens of a credentials file.
func secretsIn(credentials []byte) (secrets []string) {
	var file struct {
		Accounts map[string]struct{ Secret, Token string }
	}
	if json.Unmarshal(credentials, &file) != nil {
		return nil // the tool will say so
	}
	for _, account := range file.Accounts {
		for _, text := range []string{account.Secret, account.Token} {
			if text != "" {
				secrets = append(secrets, text)
			}
		}
	}
	return secrets
}

// account is what a URL that a tool prints may hold of an account.
var account = regexp.MustCompile(`(blobstore:(?://|\\/\\/)[^:/@\s"']*):[^@\s"']*@`)

// masked is what a tool of backups has printed, without secrets.
func (j *job) masked(output []byte) []byte {
	if j.call.Tool() == fdb.ToolCLI {
		return output
	}
	text := account.ReplaceAllString(string(output), "$1@")
	for _, secret := range j.secrets {
		if len(secret) >= 6 { // a shorter one is found in any text
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return []byte(text)
}
