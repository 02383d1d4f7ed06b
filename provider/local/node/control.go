package node

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
)

// control serves the cluster's endpoint.
type control struct {
	ca         *authority
	membership *membership
	key        []byte // signs leases
	times      Times
	self       func() Member
	cluster    string
	now        func() time.Time
	wake       func() // triggers a heartbeat: a node joined or left, or sent an unknown token

	mu        sync.Mutex
	tokenHash string // hex SHA-256 of the join token; empty: no token is valid
	members   map[string]string
	closed    bool // draining: accept only renewals
	lastWake  time.Time
}

// minWakeInterval is the minimum time between two heartbeats that unknown tokens trigger.
const minWakeInterval = time.Second

// newControl opens the files of a control node. The join token of its user data is valid
// until the server sends another one.
func newControl(dir string, c Config, b bootstrap.Data, now func() time.Time) (*control, error) {
	ca, err := openAuthority(dir, c.Name, now())
	if err != nil {
		return nil, err
	}
	key, err := ca.leaseKey()
	if err != nil {
		return nil, err
	}
	h := &control{ca: ca, membership: newMembership(c.Times.Silence), key: key, times: c.Times, cluster: b.Cluster, now: now, wake: func() {}}
	if b.Token != "" {
		h.tokenHash = hashOf(b.Token.Reveal())
	}
	return h, nil
}

// handleAnswer applies the answer of the server.
func (h *control) handleAnswer(a cluster.HeartbeatAnswer) {
	h.mu.Lock()
	h.tokenHash, h.members, h.closed = a.JoinToken, a.Members, a.Drain
	h.mu.Unlock()
	h.membership.forget(a.Removed)
}

// admits reports whether a node may join with its token, and whether the token is its
// lease.
func (h *control) admits(m Member, token string) (ok, lease bool) {
	if same(token, h.lease(m.Name, m.Identity)) {
		return true, true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if token == "" || h.closed {
		return false, false
	}
	return h.tokenHash != "" && same(hashOf(token), h.tokenHash) || h.members[m.Name] != "" && same(token, h.members[m.Name]), false
}

// lease returns the credential of a joined node. It is computed, so that a restarted
// control node accepts it.
func (h *control) lease(name, identity string) string {
	mac := hmac.New(sha256.New, h.key)
	fmt.Fprintf(mac, "%d:%s%s", len(name), name, identity)
	return hex.EncodeToString(mac.Sum(nil))
}

// list returns the joined nodes and the control node itself.
func (h *control) list() []Member {
	self := h.self()
	others := slices.DeleteFunc(h.membership.list(h.now()), func(m Member) bool { return m.Name == self.Name })
	return append([]Member{self}, others...)
}

// handler serves /version, /nodes and /join.
func (h *control) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		self := h.self()
		answer(w, http.StatusOK, map[string]string{"version": self.Version, "cluster": h.cluster, "node": self.Name})
	})
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string][]Member{"nodes": h.list()})
	})
	mux.HandleFunc("POST /join", func(w http.ResponseWriter, r *http.Request) { h.join(w, r) })
	mux.HandleFunc("DELETE /join", func(w http.ResponseWriter, r *http.Request) { h.leave(w, r) })
	return mux
}

func (h *control) join(w http.ResponseWriter, r *http.Request) {
	m, ok := memberOf(w, r)
	if !ok {
		return
	}
	if ok, _ := h.admits(m, bearer(r)); !ok {
		refuse(w, http.StatusUnauthorized, "the token is not one of this cluster")
		h.onUnknownToken()
		return
	}
	isNew, ok := h.membership.renew(h.now(), m)
	if !ok {
		refuse(w, http.StatusForbidden, "this node was removed from the cluster")
		return
	}
	a := joinAnswer{Lease: h.lease(m.Name, m.Identity), Renew: h.times.Renew, Silence: h.times.Silence}
	if m.Role == cluster.Control {
		a.Nodes = h.list()
	}
	answer(w, http.StatusOK, a)
	if isNew {
		h.wake()
	}
}

// onUnknownToken triggers a heartbeat: the answer brings the token of a run that has just
// begun. Strangers cannot trigger it more often than minWakeInterval.
func (h *control) onUnknownToken() {
	h.mu.Lock()
	due := !h.closed && h.now().Sub(h.lastWake) >= minWakeInterval
	if due {
		h.lastWake = h.now()
	}
	h.mu.Unlock()
	if due {
		h.wake()
	}
}

func (h *control) leave(w http.ResponseWriter, r *http.Request) {
	m, ok := memberOf(w, r)
	if !ok {
		return
	}
	if _, lease := h.admits(m, bearer(r)); !lease {
		refuse(w, http.StatusUnauthorized, "only the node itself may leave")
		return
	}
	left := h.membership.leave(m.Name, m.Identity)
	w.WriteHeader(http.StatusNoContent)
	if left {
		h.wake()
	}
}

// config returns the kubeconfig of the cluster.
func (h *control) config(endpoint string) string {
	return bootstrap.ClientConfig{Cluster: h.cluster, Endpoint: endpoint, CA: h.ca.pem, Certificate: h.ca.client, Key: h.ca.clientKey}.Encode().Reveal()
}

// memberOf reads the member from a join or leave request.
func memberOf(w http.ResponseWriter, r *http.Request) (Member, bool) {
	var m Member
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&m); err != nil || m.Name == "" || m.Identity == "" {
		refuse(w, http.StatusBadRequest, "name and identity are required")
		return m, false
	}
	return m, true
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the caller may be gone
}

func refuse(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]string{"error": text})
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
