package action

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/workflow"
)

func TestEnvSecrets(t *testing.T) {
	s := EnvSecrets{Prefix: "PAWL_SECRET_", Lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"PAWL_SECRET_DB_MAIN_PASSWORD": "a", "PAWL_SECRET_TOKEN": ""}[name]
		return v, ok
	}}
	for ref, want := range map[workflow.SecretRef]string{{Name: "db-main", Key: "password"}: "a", {Name: "token"}: ""} {
		if got, err := s.Secret(t.Context(), ref); err != nil || got != want {
			t.Errorf("%v: %q, %v", ref, got, err)
		}
	}
	if _, err := s.Secret(t.Context(), workflow.SecretRef{Name: "x"}); !errors.Is(err, ErrNoSecret) || !strings.Contains(err.Error(), "PAWL_SECRET_X is not set") {
		t.Errorf("missing: %v", err)
	}
}

func TestFileSecrets(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "secrets")
	for path, text := range map[string]string{"secrets/token": "abc\r\n", "secrets/..data/db/password": "two\nlines\n", "outside": "no"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(base, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"db": "..data/db", "escape": "../outside"} { // Kubernetes links
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	s := FileSecrets{Dir: dir}
	for ref, want := range map[workflow.SecretRef]string{{Name: "token"}: "abc", {Name: "db", Key: "password"}: "two\nlines"} {
		if got, err := s.Secret(t.Context(), ref); err != nil || got != want {
			t.Errorf("%v: %q, %v", ref, got, err)
		}
	}
	if _, err := s.Secret(t.Context(), workflow.SecretRef{Name: "none"}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("missing: %v", err)
	}
	for _, ref := range []workflow.SecretRef{{Name: "../outside"}, {Name: "escape"}, {Name: ".."}, {Name: "/etc/passwd"}, {Name: ""}, {Name: "db", Key: "../token"}} {
		if v, err := s.Secret(t.Context(), ref); err == nil || errors.Is(err, ErrNoSecret) {
			t.Errorf("%v: %q, %v", ref, v, err)
		}
	}
}

func TestAnySecretsAsksInOrder(t *testing.T) {
	first, second := mapSecrets{"a": "1"}, mapSecrets{"a": "2", "b": "3"}
	s := AnySecrets{first, second}
	for name, want := range map[string]string{"a": "1", "b": "3"} {
		if got, err := s.Secret(t.Context(), workflow.SecretRef{Name: name}); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := s.Secret(t.Context(), workflow.SecretRef{Name: "c"}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("missing: %v", err)
	}
	broken := AnySecrets{FileSecrets{Dir: filepath.Join(t.TempDir(), "gone")}, second}
	if _, err := broken.Secret(t.Context(), workflow.SecretRef{Name: "a"}); err == nil || errors.Is(err, ErrNoSecret) {
		t.Errorf("a source that cannot be read was passed over: %v", err)
	}
}
