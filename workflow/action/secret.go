package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/workflow"
)

// ErrNoSecret is the error of a source that does not have a secret.
var ErrNoSecret = errors.New("there is no such secret")

// EnvSecrets reads secrets from environment variables: {name: db, key: password} is Prefix +
// DB_PASSWORD, {name: token} is Prefix + TOKEN. Characters that are neither letters nor digits
// become "_".
type EnvSecrets struct {
	Prefix string
	Lookup func(name string) (string, bool) // default os.LookupEnv
}

var _ workflow.Secrets = EnvSecrets{}

// Variable returns the name of the environment variable of a secret.
func (s EnvSecrets) Variable(ref workflow.SecretRef) string {
	name := ref.Name
	if ref.Key != "" {
		name += "_" + ref.Key
	}
	return s.Prefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// Secret implements workflow.Secrets. ErrNoSecret.
func (s EnvSecrets) Secret(_ context.Context, ref workflow.SecretRef) (string, error) {
	lookup := s.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	variable := s.Variable(ref)
	value, ok := lookup(variable)
	if !ok {
		return "", fmt.Errorf("environment variable %s is not set: %w", variable, ErrNoSecret)
	}
	return value, nil
}

// FileSecrets reads secrets from files: {name: db, key: password} is Dir/db/password, {name: token}
// is Dir/token. Kubernetes mounts secrets in this form. It removes one line break at the end and
// reads nothing outside of Dir.
type FileSecrets struct {
	Dir string
}

var _ workflow.Secrets = FileSecrets{}

const maxSecret = 1 << 20

var secretName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,252}$`)

// Secret implements workflow.Secrets. ErrNoSecret.
func (s FileSecrets) Secret(_ context.Context, ref workflow.SecretRef) (string, error) {
	path := ref.Name
	if ref.Key != "" {
		path += "/" + ref.Key
	}
	for part := range strings.SplitSeq(path, "/") {
		if !secretName.MatchString(part) {
			return "", fmt.Errorf("%q is not a valid file name of a secret", part)
		}
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return "", fmt.Errorf("folder of secrets: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(path) // before the file is opened: opening a device may have effects
	if err == nil && !info.Mode().IsRegular() {
		return "", irregular(path)
	}
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // if it became a pipe meanwhile, do not block
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("file %s: %w", path, ErrNoSecret)
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", irregular(path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxSecret {
		return "", fmt.Errorf("file %s is larger than %d bytes", path, maxSecret)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func irregular(path string) error {
	return fmt.Errorf("%s is no regular file: write the secret into a file", path)
}

// AnySecrets asks its sources in order until one has the secret.
type AnySecrets []workflow.Secrets

var _ workflow.Secrets = AnySecrets{}

// Secret implements workflow.Secrets. It returns ErrNoSecret if no source has the secret.
func (s AnySecrets) Secret(ctx context.Context, ref workflow.SecretRef) (string, error) {
	errs := []error{}
	for _, source := range s {
		value, err := source.Secret(ctx, ref)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, ErrNoSecret) {
			return "", err
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return "", ErrNoSecret
	}
	return "", errors.Join(errs...)
}
