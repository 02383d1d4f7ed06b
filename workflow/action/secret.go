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

// ErrNoSecret is the answer of a source that does not hold a secret.
var ErrNoSecret = errors.New("there is no such secret")

// EnvSecrets reads secrets from environment variables: {name: db, key: password}
// is Prefix + DB_PASSWORD, {name: token} is Prefix + TOKEN. Whatever is no
// letter or digit becomes "_".
type EnvSecrets struct {
	Prefix string
	Lookup func(name string) (string, bool) // default os.LookupEnv
}

var _ workflow.Secrets = EnvSecrets{}

// Variable is the name of the environment variable that holds a secret.
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

// FileSecrets reads secrets from files: {name: db, key: password} is
// Dir/db/password, {name: token} is Dir/token. This is how Kubernetes mounts
// them. One line break at the end is cut; nothing outside of Dir is read.
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
			return "", fmt.Errorf("%q is no name of a secret's file", part)
		}
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return "", fmt.Errorf("folder of secrets: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(path) // before it is opened: to open a device may do something
	if err == nil && !info.Mode().IsRegular() {
		return "", irregular(path)
	}
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe by now is not waited for
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

// AnySecrets asks one source after the other until one holds the secret.
type AnySecrets []workflow.Secrets

var _ workflow.Secrets = AnySecrets{}

// Secret implements workflow.Secrets. ErrNoSecret if no source holds it.
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
