package sim

import (
	"container/heap"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
)

const (
	heartbeatInterval = 30 * time.Second
	maxHeartbeats     = 1024
	endpointPort      = 6443
	drainedReason     = "drained"
)

// node is the node program on a VM, as its user data describes it. It is stored as JSON.
type node struct {
	Token   string
	Cluster string
	Name    string
	Role    cluster.Role
	Version string        `json:",omitempty"`
	Boots   int64         // starts of its VM
	Booted  time.Time     // the node works from then on
	Every   time.Duration `json:",omitempty"`

	NotReady string   `json:",omitempty"`
	Silent   bool     `json:",omitempty"`
	Drained  bool     `json:",omitempty"`
	Stubborn bool     `json:",omitempty"` // it ignores upgrade requests
	Removed  []string `json:",omitempty"` // nodes that the server told it to forget
}

// parse returns the node that user data describe; nil if they describe none.
func (c *Cloud) parse(t *resource, userData []byte) *node {
	if len(userData) == 0 {
		return nil
	}
	b, err := c.o.Parse(userData)
	if err != nil {
		return nil // a VM that is not a node
	}
	n := &node{Token: b.Token.Reveal(), Cluster: b.Cluster, Name: b.Node, Role: b.Role, Version: b.Version}
	if n.Cluster == t.Cluster {
		n.Cluster = t.Cluster // share one string
	}
	if n.Name == t.Name {
		n.Name = t.Name
	}
	return n
}

// boot sets a VM to Running at the given time. Its node works after Times.Boot.
func (c *Cloud) boot(t *resource, at time.Time) {
	t.State = stateRunning
	if n := t.Node; n != nil {
		n.Boots++
		n.Booted, n.Drained = at.Add(c.o.Times.Boot), false
		c.scheduleHeartbeat(t, n.Booted)
	}
	c.persist(t)
}

func (t *resource) nodeRunning(now time.Time) bool {
	return !t.gone && t.Node != nil && (t.State == stateRunning || t.State == stateMigrating) && !now.Before(t.Node.Booted)
}

// Serve sends the nodes' heartbeats until the context ends. Up to maxHeartbeats are sent
// concurrently.
func (c *Cloud) Serve(ctx context.Context) error {
	var sending sync.WaitGroup
	defer sending.Wait()
	slots := make(chan struct{}, maxHeartbeats)
	for ctx.Err() == nil {
		sleeping, wake := context.WithCancel(ctx)
		for _, one := range c.dueHeartbeats() {
			slots <- struct{}{}
			sending.Go(func() {
				defer func() { <-slots }()
				c.sendHeartbeat(ctx, one)
			})
		}
		c.mu.Lock()
		now, wait := c.o.Now(), time.Hour
		if next := c.nextDue(); !next.IsZero() {
			wait = max(next.Sub(now), 0)
		}
		c.wake, c.sleepsUntil = wake, now.Add(wait)
		c.mu.Unlock()
		if wait > 0 {
			_ = c.o.Sleep(sleeping, wait) // woken or ended: the loop decides
		}
		c.mu.Lock()
		c.wake = nil
		c.mu.Unlock()
		wake()
	}
	return ctx.Err()
}

// Tick ends finished jobs, sends the heartbeats that are due and waits for their answers.
// It returns the time of the next event; zero if there is none.
func (c *Cloud) Tick(ctx context.Context) time.Time {
	var sending sync.WaitGroup
	slots := make(chan struct{}, maxHeartbeats)
	for _, one := range c.dueHeartbeats() {
		slots <- struct{}{}
		sending.Go(func() {
			defer func() { <-slots }()
			c.sendHeartbeat(ctx, one)
		})
	}
	sending.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextDue()
}

// dueHeartbeat is a heartbeat to send.
type dueHeartbeat struct {
	id        string
	boot      int64
	token     string
	heartbeat cluster.Heartbeat
}

// dueHeartbeats ends finished jobs and returns the heartbeats that are due.
func (c *Cloud) dueHeartbeats() []dueHeartbeat {
	var due []dueHeartbeat
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Now()
	c.settle(now)
	for len(c.heartbeats) > 0 && !c.heartbeats[0].at.After(now) {
		e := heap.Pop(&c.heartbeats).(event)
		t, ok := c.resources[e.id]
		if ok && t.Node.Boots == e.boot && !t.Node.Silent && t.nodeRunning(now) {
			due = append(due, dueHeartbeat{e.id, e.boot, t.Node.Token, c.heartbeat(t, now)})
		}
	}
	return due
}

func (c *Cloud) sendHeartbeat(ctx context.Context, one dueHeartbeat) {
	answer, err := c.o.Home(ctx, one.token, one.heartbeat)
	c.handleAnswer(one.id, one.boot, one.heartbeat, answer, err)
}

// handleAnswer applies the answer to a heartbeat.
func (c *Cloud) handleAnswer(id string, boot int64, h cluster.Heartbeat, answer cluster.HeartbeatAnswer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wakeServe() // the node's next heartbeat may be the earliest event
	now := c.o.Now()
	t, ok := c.resources[id]
	if !ok || t.Node.Boots != boot {
		return
	}
	n := t.Node
	before := *n
	if err == nil {
		n.Every = answer.Every
	}
	every := c.o.HeartbeatInterval
	if every == 0 {
		if every = n.Every; every == 0 {
			every = heartbeatInterval
		}
	}
	if err != nil {
		c.calls.add(Entry{Seq: c.next(), At: now, Call: "home", Kind: t.Kind, Name: t.Name, ID: t.ID, Cluster: n.Cluster, Code: codeOf(err), Err: err.Error()})
		c.scheduleHeartbeat(t, now.Add(every))
		return
	}
	if answer.Credential != "" {
		n.Token = answer.Credential
	}
	for _, name := range answer.Removed {
		if !slices.Contains(n.Removed, name) {
			n.Removed = append(n.Removed, name)
		}
	}
	if up := answer.Upgrade; up != nil && up.Version != n.Version && !n.Stubborn { // in place: the node keeps its data and boots again
		n.Version = up.Version
		c.boot(t, now)
		if failed := c.flush(); failed != nil {
			c.calls.add(Entry{Seq: c.next(), At: now, Call: "home", Kind: t.Kind, Name: t.Name, ID: t.ID, Err: failed.Error()})
		}
		return
	}
	if n.Drained = answer.Drain; n.Drained != before.Drained {
		every = min(every, time.Second) // the node reports a changed drain within a second
	}
	if before.Token != n.Token || before.Drained != n.Drained || before.Every != n.Every || len(before.Removed) != len(n.Removed) {
		c.persist(t)
		if failed := c.flush(); failed != nil {
			c.calls.add(Entry{Seq: c.next(), At: now, Call: "home", Kind: t.Kind, Name: t.Name, ID: t.ID, Err: failed.Error()})
		}
	}
	c.scheduleHeartbeat(t, now.Add(every))
}

// heartbeat returns the next heartbeat of a node.
func (c *Cloud) heartbeat(t *resource, now time.Time) cluster.Heartbeat {
	n := t.Node
	h := cluster.Heartbeat{Cluster: n.Cluster, Node: n.Name, Identity: t.Identity, Role: n.Role, Version: n.Version, Address: t.Address}
	h.Ready, h.Reason = c.ready(t, now)
	if n.Role != cluster.Control {
		return h
	}
	h.Endpoint = c.endpoint(t)
	for _, other := range c.nodes(n.Cluster) {
		if ready, _ := c.ready(other, now); ready && other.nodeRunning(now) && !slices.Contains(n.Removed, other.Node.Name) {
			h.Joined = append(h.Joined, other.Node.Name)
		}
	}
	h.CACert, h.Config = c.config(n.Cluster, h.Endpoint, now)
	return h
}

func (c *Cloud) ready(t *resource, now time.Time) (ready bool, reason string) {
	n := t.Node
	switch {
	case n.NotReady != "":
		return false, n.NotReady
	case n.Drained:
		return false, drainedReason
	case n.Role == cluster.Control:
		return true, ""
	}
	for _, other := range c.nodes(n.Cluster) {
		if other.Node.Role == cluster.Control && other.nodeRunning(now) {
			return true, ""
		}
	}
	return false, "no control node answers"
}

// nodes returns the nodes of a cluster, by tag or, without tags, by user data.
func (c *Cloud) nodes(uuid string) []*resource {
	x, ok := c.byCluster[uuid]
	if !ok {
		return nil
	}
	var all []*resource
	for _, t := range x.items {
		if !t.gone && t.Kind == cluster.VM && t.Node != nil && t.Node.Cluster == uuid {
			all = append(all, t)
		}
	}
	return all
}

// endpoint returns the address of a control node's port: that of a rule if there is one.
func (c *Cloud) endpoint(t *resource) string {
	host, port := t.Address, endpointPort
	for _, r := range c.inNetwork(t) {
		leads := r.Kind == cluster.Forward && r.Spec.VM == t.ID || r.Kind == cluster.Balancer && slices.Contains(r.Spec.VMs, t.ID)
		if a, ok := c.resources[r.Spec.Address]; ok && leads && r.Spec.PrivatePort == endpointPort {
			host, port = a.Address, r.Spec.Port
			break
		}
	}
	return fmt.Sprintf("https://%s", net.JoinHostPort(host, strconv.Itoa(port)))
}

// Probe checks an endpoint that a heartbeat reported. It returns nil if the control node
// works and the rules lead to it.
func (c *Cloud) Probe(_ context.Context, endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("sim: endpoint %q: %w", endpoint, err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return fmt.Errorf("sim: endpoint %q has no port", endpoint)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Now()
	c.settle(now)
	t, ok := c.byIP[u.Hostname()]
	if !ok || c.unreachable {
		return fmt.Errorf("sim: %s: no route to host", endpoint)
	}
	targets, open := []string{t.ID}, true
	if t.Kind == cluster.Address {
		targets, open = nil, false
		for _, r := range c.inNetwork(t) {
			if r.Spec.Address != t.ID || r.Spec.Port != port {
				continue
			}
			switch r.Kind {
			case cluster.Firewall:
				open = true
			case cluster.Forward:
				targets = append(targets, r.Spec.VM)
			case cluster.Balancer:
				targets = append(targets, r.Spec.VMs...)
			}
		}
	}
	if !open {
		return fmt.Errorf("sim: %s: timeout: no firewall rule is open", endpoint)
	}
	for _, id := range targets {
		if vm, ok := c.resources[id]; ok && vm.nodeRunning(now) && vm.Node.Role == cluster.Control {
			return nil
		}
	}
	return fmt.Errorf("sim: %s: connection refused", endpoint)
}

// configKey identifies a CA and configuration; the seed is the same for all.
type configKey struct {
	cluster, endpoint string
	year              int
}

type configText struct{ ca, config string }

// maxConfigs limits the configurations in memory. Control nodes report theirs in each
// heartbeat.
const maxConfigs = 1000

// config returns the CA and configuration of a cluster: the same for the same seed,
// cluster and endpoint.
func (c *Cloud) config(uuid, endpoint string, now time.Time) (ca, config string) {
	key := configKey{uuid, endpoint, now.Year()}
	text, known := c.configs[key]
	if !known {
		if c.configs == nil || len(c.configs) >= maxConfigs {
			c.configs = map[configKey]configText{}
		}
		text.ca, text.config = c.makeConfig(uuid, endpoint, now)
		c.configs[key] = text
	}
	return text.ca, text.config
}

func (c *Cloud) makeConfig(uuid, endpoint string, now time.Time) (ca, config string) {
	seed := sha256.Sum256(fmt.Appendf(nil, "%d/%s", c.o.Seed, uuid))
	key := ed25519.NewKeyFromSeed(seed[:])
	from := time.Date(now.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(seed[:8]), Subject: pkix.Name{CommonName: uuid}, NotBefore: from, NotAfter: from.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		panic(err) // ed25519 needs no randomness, and the template is always the same
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	client, clientKey, err := bootstrap.ClientCredential(cert, key)
	if err != nil {
		panic(err)
	}
	ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return ca, bootstrap.ClientConfig{Cluster: uuid, Endpoint: endpoint, CA: ca, Certificate: client, Key: clientKey}.Encode().Reveal()
}
