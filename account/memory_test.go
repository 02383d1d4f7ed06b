package account_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/account/accounttest"
)

func TestMemory(t *testing.T) {
	accounttest.Run(t, func(*testing.T) account.Store { return account.NewMemory() })
}

// Secrets never appear in lists, logs and errors.
func TestSecretsPrintAsStars(t *testing.T) {
	k := account.Key{Credential: account.Credential{ID: "k"}, Secret: "planted"}
	tok := account.Token{Hash: account.HashToken("planted")}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", k, "secret", k.Secret)
	encoded, err := json.Marshal([]any{k, tok, k.Secret, map[string]any{"s": k.Secret}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{log.String(), string(encoded), fmt.Sprintf("%v %+v %#v %s %q", k, k, k, k.Secret, k.Secret)} {
		if strings.Contains(text, "planted") {
			t.Errorf("the secret is in %s", text)
		}
	}
	if strings.Contains(string(encoded), "hash") || account.Secret("").String() != "" {
		t.Errorf("encoded: %s", encoded)
	}
}
