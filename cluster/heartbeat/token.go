package heartbeat

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/cluster/records"
)

// tokenLife is how long a join token may be used.
const tokenLife = 90 * time.Minute

// Tokens has the join tokens that this process has issued, by run. Only their
// hashes are stored: a run that continues in another process issues a new one.
type Tokens struct {
	mu    sync.Mutex
	byRun map[string]cluster.Secret
}

// Of returns the join token of a run; empty if this process has issued none.
func (t *Tokens) Of(run string) cluster.Secret {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byRun[run]
}

func (t *Tokens) put(run string, token cluster.Secret) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byRun == nil {
		t.byRun = map[string]cluster.Secret{}
	}
	t.byRun[run] = token
}

// Forget forgets the join token of a run.
func (t *Tokens) Forget(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byRun, run)
}

// Issue returns the edit that stores a new join token of a run, and a function to
// call after the write. Both are nil if this process has already issued one.
func (t *Tokens) Issue(run string, now time.Time) (edit records.Amendment, issued func()) {
	if t.Of(run) != "" {
		return nil, nil
	}
	token := newToken()
	hash := Hash(token.Reveal())
	return func(c *cluster.Cluster, d *cluster.Details) bool {
		if d.CACert == "" && !c.Started { // before the first control node, which creates its own CA if it does not accept this one
			cert, key, err := bootstrap.NewAuthority(c.Name, now)
			if err == nil { // otherwise the first control node creates one
				d.CACert, d.CAKey = cert, key
			}
		}
		if d.JoinTokenRun != run {
			d.JoinTokenHash = ""
		}
		d.JoinTokenHash = strings.Trim(hash+","+d.JoinTokenHash, ",")
		d.JoinTokenRun, d.JoinTokenExpires = run, now.Add(tokenLife)
		return true
	}, func() { t.put(run, token) }
}

// newToken returns 32 random bytes in base64.
func newToken() cluster.Secret {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return cluster.Secret(base64.RawURLEncoding.EncodeToString(raw))
}

// Hash returns the hash under which a token or credential is stored.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// matches compares a token with each hash of a comma-separated list, in constant
// time.
func matches(token, hashes string) bool {
	hash, found := []byte(Hash(token)), 0
	for h := range strings.SplitSeq(hashes, ",") {
		found |= subtle.ConstantTimeCompare(hash, []byte(h))
	}
	return found == 1 && token != ""
}

// Revoke deletes the join token of a run, or any if run is empty. It reports
// whether there was one.
func Revoke(d *cluster.Details, run string) bool {
	if d.JoinTokenHash == "" || run != "" && d.JoinTokenRun != run {
		return false
	}
	d.JoinTokenHash, d.JoinTokenRun, d.JoinTokenExpires = "", "", time.Time{}
	return true
}

// expected reports a node for which the join token is valid: the run of the
// token creates it, and it has not been ready. Only a heartbeat with a
// credential makes a node ready.
func expected(record *cluster.Record, d *cluster.Details, node *cluster.Node) bool {
	return node.ReadyAt.IsZero() &&
		slices.ContainsFunc(record.Journal, func(r cluster.JournalRow) bool { return r.Key == node.Key && r.RunID == d.JoinTokenRun })
}
