package service

import (
	"context"
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
	"github.com/pawl-dev/pawl/outcome"
)

// tokenLife is how long a join token may be used.
const tokenLife = 90 * time.Minute

// tokens has the join tokens that this process has issued, by run. Only their
// hashes are stored: a run that continues in another process issues a new one.
type tokens struct {
	mu    sync.Mutex
	byRun map[string]cluster.Secret
}

func (t *tokens) get(run string) cluster.Secret {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byRun[run]
}

func (t *tokens) put(run string, token cluster.Secret) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byRun == nil {
		t.byRun = map[string]cluster.Secret{}
	}
	if token == "" {
		delete(t.byRun, run)
		return
	}
	t.byRun[run] = token
}

// newToken returns 32 random bytes in base64.
func newToken() cluster.Secret {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return cluster.Secret(base64.RawURLEncoding.EncodeToString(raw))
}

// hashOf returns the hash under which a token or credential is stored.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// matches compares a token with each hash of a comma-separated list, in constant
// time.
func matches(token, hashes string) bool {
	hash, found := []byte(hashOf(token)), 0
	for h := range strings.SplitSeq(hashes, ",") {
		found |= subtle.ConstantTimeCompare(hash, []byte(h))
	}
	return found == 1 && token != ""
}

// issueToken returns the edit that stores a new join token of the run, and a
// function to call after the write. Both are nil if this process has already
// issued one.
func (w *work) issueToken() (edit amendment, issued func()) {
	run := w.t.RunID()
	if w.s.tokens.get(run) != "" {
		return nil, nil
	}
	token := newToken()
	hash := hashOf(token.Reveal())
	return func(c *cluster.Cluster, d *cluster.Details) bool {
		if d.CACert == "" && !c.Started { // before the first control node, which creates its own CA if it does not accept this one
			cert, key, err := cluster.NewAuthority(c.Name, w.now)
			if err == nil { // otherwise the first control node creates one
				d.CACert, d.CAKey = cert, key
			}
		}
		if d.JoinTokenRun != run {
			d.JoinTokenHash = ""
		}
		d.JoinTokenHash = strings.Trim(hash+","+d.JoinTokenHash, ",")
		d.JoinTokenRun, d.JoinTokenExpires = run, w.now.Add(tokenLife)
		return true
	}, func() { w.s.tokens.put(run, token) }
}

// revoke deletes the join token of a run, or any if run is empty. It reports
// whether there was one.
func revoke(d *cluster.Details, run string) bool {
	if d.JoinTokenHash == "" || run != "" && d.JoinTokenRun != run {
		return false
	}
	d.JoinTokenHash, d.JoinTokenRun, d.JoinTokenExpires = "", "", time.Time{}
	return true
}

// revokeToken is the step that revokes the join token at the end of a run.
func revokeToken(ctx context.Context, w *work) outcome.Outcome {
	run := w.t.RunID()
	w.s.tokens.put(run, "")
	return outcome.Fail(w.amend(ctx, func(_ *cluster.Cluster, d *cluster.Details) bool { return revoke(d, run) }))
}

// expected reports a node for which the join token is valid: the run of the
// token creates it, and it has not been ready. Only a heartbeat with a
// credential makes a node ready.
func expected(record *cluster.Record, d *cluster.Details, node *cluster.Node) bool {
	return node.ReadyAt.IsZero() &&
		slices.ContainsFunc(record.Journal, func(r cluster.JournalRow) bool { return r.Key == node.Key && r.RunID == d.JoinTokenRun })
}

// userData returns the user data for the first boot of a node. The join token
// of the run must be stored before.
func (w *work) userData(ctx context.Context, node *cluster.Node) ([]byte, error) {
	d, err := w.details(ctx)
	if err != nil {
		return nil, err
	}
	b := cluster.Bootstrap{
		Home: w.s.options.HomeURL, HomeCA: w.s.options.HomeCA, Cluster: w.c.UUID, Node: node.Name, Role: node.Role, Version: node.Version, Token: w.s.tokens.get(w.t.RunID()),
	}
	if node.Role == cluster.Worker {
		b.Control, b.CAHash = controlURL(w.rec, w.caps), cluster.CAHash(d.CACert)
	}
	return b.Render(w.s.options.Bootstrap)
}
