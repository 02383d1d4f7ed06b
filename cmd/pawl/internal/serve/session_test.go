package serve

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

const operatorToken = "a-token-of-the-operator-of-this-test"

// ask sends a request and returns its status and the cookie it sets.
func ask(t *testing.T, method, url string, header ...string) (status int, cookie string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for _, c := range answer.Cookies() {
		cookie = c.Name + "=" + c.Value
	}
	return answer.StatusCode, cookie
}

// A session of the console is signed with a key made of the store's master key:
// it outlives the server, and ends when that master key is taken away.
func TestSessionOutlivesTheServer(t *testing.T) {
	dir := folder(t, map[string]string{"token": operatorToken})
	path := filepath.Join(dir, "pawl.db")
	key := path + ".key"
	at := func(step string, store backend.StoreOptions, do func(url string)) {
		t.Helper()
		_, url, stop := running(t, Options{Store: store, TokenFile: filepath.Join(dir, "token")})
		do(url)
		if err := stop(); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	file := backend.StoreOptions{DSN: path}
	var cookie string
	signIn := func(url string) {
		t.Helper()
		status, created := ask(t, "POST", url+"/v1/session", "Authorization", "Bearer "+operatorToken)
		if status != http.StatusOK || created == "" {
			t.Fatalf("signing in: %d %q", status, created)
		}
		cookie = created
	}
	check := func(step string, want int) func(string) {
		return func(url string) {
			t.Helper()
			if status, _ := ask(t, "GET", url+"/v1/me", "Cookie", cookie); status != want {
				t.Errorf("%s: %d, want %d", step, status, want)
			}
		}
	}
	at("the first server", file, signIn)
	at("a restart", file, check("a restart", http.StatusOK))
	if err := secrets.AddMasterKey(key); err != nil {
		t.Fatal(err)
	}
	at("a second master key", file, check("a new master key before the old one", http.StatusOK))
	if err := secrets.KeepNewestKey(key); err != nil {
		t.Fatal(err)
	}
	at("a rotated master key", file, check("the old master key is gone", http.StatusUnauthorized))

	// The memory store has no master key.
	memory := backend.StoreOptions{Kind: "memory"}
	at("memory", memory, func(url string) {
		signIn(url)
		check("the memory store", http.StatusOK)(url)
	})
	at("memory again", memory, check("a restart without a master key", http.StatusUnauthorized))
}
