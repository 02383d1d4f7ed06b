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

// tokens are the join tokens that this process has issued, by run. Only their
// hashes are stored: a run that goes on in another process issues one more.
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

// newToken is 32 random bytes.
func newToken() cluster.Secret {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return cluster.Secret(base64.RawURLEncoding.EncodeToString(raw))
}

// hashOf is how tokens and credentials are stored.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// matches compares in constant time with each hash of a list.
func matches(token, hashes string) bool {
	hash, found := []byte(hashOf(token)), 0
	for h := range strings.SplitSeq(hashes, ",") {
		found |= subtle.ConstantTimeCompare(hash, []byte(h))
	}
	return found == 1 && token != ""
}

// issue gives the edit that stores a new join token of the run, and what keeps
// it in mind once it is durable; nil if this process has issued one already.
func (w *work) issue() (edit amendment, issued func()) {
	run := w.t.RunID()
	if w.s.tokens.get(run) != "" {
		return nil, nil
	}
	token := newToken()
	hash := hashOf(token.Reveal())
	return func(c *cluster.Cluster, d *cluster.Details) bool {
		if d.CACert == "" && !c.Started { // before its first control node, which brings one of its own if it does not take this
			cert, key, err := cluster.NewAuthority(c.Name, w.now)
			if err == nil { // else the first control node makes it
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

// revoke ends the join token of a run, or any if run is empty.
func revoke(d *cluster.Details, run string) bool {
	if d.JoinTokenHash == "" || run != "" && d.JoinTokenRun != run {
		return false
	}
	d.JoinTokenHash, d.JoinTokenRun, d.JoinTokenExpires = "", "", time.Time{}
	return true
}

// revokeToken is the step at the end of each run that may have issued one.
func revokeToken(ctx context.Context, w *work) outcome.Outcome {
	run := w.t.RunID()
	w.s.tokens.put(run, "")
	return outcome.Fail(w.amend(ctx, func(_ *cluster.Cluster, d *cluster.Details) bool { return revoke(d, run) }))
}

// expected reports a node that the run of the join token makes: the token may
// speak for it until it was ready, which only its credential can say.
func expected(record *cluster.Record, d *cluster.Details, node *cluster.Node) bool {
	return node.ReadyAt.IsZero() &&
		slices.ContainsFunc(record.Journal, func(r cluster.JournalRow) bool { return r.Key == node.Key && r.RunID == d.JoinTokenRun })
}

// userData is what a node must know at its first boot. The run's join token is
// stored by now.
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
