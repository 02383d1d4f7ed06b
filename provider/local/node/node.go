package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/provider/local/internal/disk"
	"github.com/pawl-dev/pawl/provider/local/internal/host"
)

var (
	errRemoved = errors.New("the directory of the node is gone")
	errTaken   = errors.New("another process runs this node")
)

// Run runs the node of a data directory until the context ends or the directory is gone.
// It logs to stderr. The provider creates the directory.
func Run(ctx context.Context, dir string) error {
	return run(ctx, dir, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

func run(ctx context.Context, dir string, logger *slog.Logger) error {
	var d Document
	if err := disk.ReadJSON(filepath.Join(dir, File), &d); err != nil {
		return err
	}
	held, err := takeLock(ctx, filepath.Join(dir, LockFile))
	if err != nil {
		return err
	}
	defer held.Close()
	if err := disk.WriteJSON(filepath.Join(dir, ProcessFile), host.Self(d.Node.Identity)); err != nil {
		return err
	}
	d.Node.Times = d.Node.Times.filled()
	n := &node{dir: dir, config: d.Node, log: logger, started: time.Now(), reason: "Starting", heartbeatNow: make(chan struct{}, 1), joinNow: make(chan struct{}, 1), restartAPI: make(chan struct{}, 1)}
	if version := n.read(versionFile); version != "" {
		n.config.Version = version
	}
	err = n.serve(ctx)
	if errors.Is(err, errRemoved) {
		logger.Info("the directory is gone, and with it the node")
		return nil
	}
	return err
}

// takeLock waits for a moment: the previous process may be ending.
func takeLock(ctx context.Context, path string) (*os.File, error) {
	for range 50 {
		held, err := disk.TryLock(path)
		if held != nil || err != nil {
			return held, err
		}
		if !await(ctx, 100*time.Millisecond, nil) {
			return nil, ctx.Err()
		}
	}
	return nil, errTaken
}

type node struct {
	dir              string
	config           Config
	boot             bootstrap.Data
	log              *slog.Logger
	started          time.Time
	controlNode      *control      // of a control node with a CA
	startControlNode func() error  // starts the control node
	holdsEndpoint    atomic.Bool   // this node serves the endpoint of the cluster
	heartbeatNow     chan struct{} // triggers a heartbeat
	joinNow          chan struct{} // the join target has changed
	restartAPI       chan struct{} // restarts the API of a control node

	mu         sync.Mutex
	ready      bool
	reason     string
	target     joinTarget
	credential string
}

// serve runs all tasks of the node concurrently.
func (n *node) serve(ctx context.Context) error {
	known := n.readUserData()
	group, ctx := errgroup.WithContext(ctx)
	health, err := net.Listen("tcp", n.config.Health)
	if err != nil {
		return err
	}
	n.httpServer(ctx, group, health, n.healthHandler())
	group.Go(func() error { return n.watch(ctx) })
	if known {
		if err := n.join(ctx, group); err != nil {
			n.setReady(false, "Broken: "+err.Error())
			n.log.Error("the node does not work", "error", err)
		}
		n.startHeartbeats(ctx, group)
	}
	n.log.Info("the node is up", "name", n.config.Name, "role", n.config.Role, "version", n.config.Version, "health", n.config.Health)
	err = group.Wait()
	if err == nil || errors.Is(err, context.Canceled) {
		n.log.Info("the node is down")
		return nil
	}
	return err
}

// readUserData reports whether the user data configure a node. Any other VM runs all the
// same.
func (n *node) readUserData() bool {
	text, err := os.ReadFile(filepath.Join(n.dir, UserDataFile))
	if err == nil {
		n.boot, err = bootstrap.Parse(text)
	}
	if err != nil {
		n.setReady(false, "NoBootstrap: "+err.Error())
		return false
	}
	n.target = joinTarget{control: n.boot.Control, caHash: n.boot.CAHash}
	if n.config.Role == "" {
		n.config.Role = n.boot.Role
	}
	return true
}

// join starts the API of a control node, or the joiner of a worker.
func (n *node) join(ctx context.Context, group *errgroup.Group) error {
	address, _, err := net.SplitHostPort(n.config.API)
	if err != nil {
		return err
	}
	if n.config.Role == cluster.Control {
		n.startControlNode = func() error { return n.startControl(ctx, group, address) }
		if n.read(caFile) != "" {
			return n.startControlNode()
		}
		n.setReady(false, waitsForCA) // the server sends it with its first answer
		return nil
	}
	n.setReady(false, waitsForControl)
	j := &joiner{
		times: n.config.Times, self: n.member(), lease: n.read(leaseFile), tokens: n.tokens, now: time.Now, log: n.log, wake: n.joinNow,
		target:    func() joinTarget { n.mu.Lock(); defer n.mu.Unlock(); return n.target },
		dial:      func(p joinTarget) (controlClient, error) { return controlCaller(p.control, p.caHash) },
		saveLease: func(lease string) error { return disk.WriteFile(filepath.Join(n.dir, leaseFile), []byte(lease)) },
		setReady:  n.setReady,
	}
	group.Go(func() error { j.run(ctx); return nil })
	return nil
}

// startControl starts the control node with the CA of its directory, or with a new one.
func (n *node) startControl(ctx context.Context, group *errgroup.Group, address string) error {
	head, err := newControl(n.dir, n.config, n.boot, time.Now)
	if err != nil {
		return err
	}
	head.self, head.wake = n.member, func() { notify(n.heartbeatNow) }
	addresses := []string{address}
	if n.config.Endpoint != "" {
		shared, _, err := net.SplitHostPort(n.config.Endpoint)
		if err != nil {
			return err
		}
		addresses = append(addresses, shared)
	}
	config, err := head.ca.serve(time.Now(), addresses...)
	if err != nil {
		return err
	}
	listener, err := newTLSListener(n.config.API, config)
	if err != nil {
		return err
	}
	n.controlNode = head
	group.Go(func() error { return n.serveControl(ctx, listener, config) })
	if n.config.Endpoint == "" {
		n.setReady(true, "")
		return nil
	}
	n.setReady(false, notJoined)
	n.mu.Lock()
	n.target = joinTarget{control: "https://" + n.config.Endpoint, caHash: bootstrap.CAHash(head.ca.pem)}
	n.mu.Unlock()
	self := n.member()
	j := &joiner{
		times: n.config.Times, self: self, lease: head.lease(self.Name, self.Identity), tokens: func() []string { return nil }, now: time.Now, log: n.log, wake: n.joinNow,
		target:    func() joinTarget { n.mu.Lock(); defer n.mu.Unlock(); return n.target },
		dial:      func(p joinTarget) (controlClient, error) { return controlCaller(p.control, p.caHash) },
		saveLease: func(string) error { return nil }, // the lease is computed
		setReady: func(ready bool, reason string) {
			if !n.hasReason(upgrading) {
				n.setReady(ready, reason)
			}
		},
		onAnswer: func(a joinAnswer) {
			if !n.holdsEndpoint.Load() {
				head.membership.follow(a.Nodes)
			}
		},
	}
	group.Go(func() error { j.run(ctx); return nil })
	return nil
}

// serveControl serves the API of a control node, and restarts it after an upgrade.
func (n *node) serveControl(ctx context.Context, listener net.Listener, config *tls.Config) error {
	for {
		stopping, end := context.WithCancel(ctx)
		group, serving := errgroup.WithContext(stopping)
		n.httpServer(serving, group, listener, n.controlNode.handler())
		if n.config.Endpoint != "" {
			group.Go(func() error { return n.holdEndpoint(serving, config) })
		}
		select {
		case <-serving.Done(): // the node ends or its API has failed
			end()
			return group.Wait()
		case <-n.restartAPI:
		}
		end()
		if err := group.Wait(); err != nil {
			return err
		}
		var err error
		if listener, err = newTLSListener(n.config.API, config); err != nil {
			return err
		}
		n.setReady(n.config.Endpoint == "", "")
		notify(n.joinNow)
	}
}

// holdEndpoint serves the endpoint that the control nodes share. One of them binds the
// address; when it ends or drains, another one binds it.
func (n *node) holdEndpoint(ctx context.Context, config *tls.Config) error {
	every := max(n.config.Times.Watch/5, 10*time.Millisecond)
	for ; ctx.Err() == nil; await(ctx, every, nil) {
		if n.drains() {
			continue
		}
		listener, err := newTLSListener(n.config.Endpoint, config)
		if err != nil {
			continue // another node has the address
		}
		n.log.Info("this control node serves the endpoint", "endpoint", n.config.Endpoint)
		n.holdsEndpoint.Store(true)
		holding, end := context.WithCancel(ctx)
		group, serving := errgroup.WithContext(holding)
		n.httpServer(serving, group, listener, n.controlNode.handler())
		notify(n.joinNow) // join its own membership
		for await(serving, every, nil) && !n.drains() {
		}
		end()
		err = group.Wait()
		n.holdsEndpoint.Store(false)
		if err != nil {
			n.log.Warn("the endpoint is released", "error", err)
		}
	}
	return nil
}

func (n *node) drains() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.target.drain
}

// upgrade changes the version of the node in place: CA, keys and members stay, the
// endpoint is away for a moment. After a crash the node has the old version or the new
// one.
func (n *node) upgrade(to cluster.NodeUpgrade) {
	if err := disk.WriteFile(filepath.Join(n.dir, versionFile), []byte(to.Version)); err != nil {
		n.log.Error("the upgrade failed", "version", to.Version, "error", err)
		return
	}
	n.mu.Lock()
	from := n.config.Version
	n.config.Version = to.Version
	n.mu.Unlock()
	n.log.Info("upgraded in place", "from", from, "to", to.Version)
	n.setReady(false, upgrading)
	notify(n.restartAPI)
}

func (n *node) startHeartbeats(ctx context.Context, group *errgroup.Group) {
	n.credential = n.read(credentialFile)
	home, err := homeCaller(n.boot)
	if err != nil {
		n.log.Error("cannot connect to the server", "error", err)
		return
	}
	g := &heartbeater{
		times: n.config.Times, token: n.boot.Token.Reveal(), credential: n.credential, send: home.heartbeat, heartbeat: n.heartbeat, onAnswer: n.handleAnswer, wake: n.heartbeatNow, log: n.log,
		saveCredential: func(credential string) error {
			n.mu.Lock()
			n.credential = credential
			n.mu.Unlock()
			return disk.WriteFile(filepath.Join(n.dir, credentialFile), []byte(credential))
		},
	}
	group.Go(func() error {
		defer home.close()
		g.run(ctx)
		return nil
	})
}

// handleAnswer applies the answer of the server.
func (n *node) handleAnswer(a cluster.HeartbeatAnswer) {
	if n.config.Role == cluster.Control {
		n.handleControlAnswer(a)
		return
	}
	n.mu.Lock()
	next := n.target
	next.drain = a.Drain
	if a.Control != "" && a.CAHash != "" {
		next.control, next.caHash = a.Control, a.CAHash
	}
	changed := next != n.target
	n.target = next
	n.mu.Unlock()
	if changed {
		notify(n.joinNow)
	}
}

// handleControlAnswer starts the control node after the first answer, which contains the
// CA of the cluster.
func (n *node) handleControlAnswer(a cluster.HeartbeatAnswer) {
	if n.controlNode == nil {
		if n.startControlNode == nil {
			return // the configuration is broken
		}
		var err error
		if a.CACert != "" && a.CAKey != "" {
			err = keepAuthority(n.dir, a.CACert, a.CAKey)
		}
		if err == nil {
			err = n.startControlNode()
		}
		if err != nil {
			n.setReady(false, "Broken: "+err.Error())
			n.log.Error("the node does not work", "error", err)
			return
		}
	}
	n.controlNode.handleAnswer(a)
	n.mu.Lock()
	turned := n.target.drain != a.Drain
	n.target.drain = a.Drain
	n.mu.Unlock()
	if turned {
		notify(n.joinNow)
	}
	switch {
	case a.Upgrade != nil && a.Upgrade.Version != n.member().Version:
		n.upgrade(*a.Upgrade)
	case a.Drain:
		n.setReady(false, draining)
	case n.hasReason(upgrading), n.config.Endpoint != "": // it is ready once it is a member
	default:
		n.setReady(true, "")
	}
}

// tokens returns the tokens for joining: that of the user data and, once it is used up, a
// token derived from the node's credential.
func (n *node) tokens() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	tokens := []string{n.boot.Token.Reveal()}
	if n.credential != "" {
		tokens = append(tokens, hashOf(n.credential))
	}
	return tokens
}

func (n *node) hasReason(reason string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reason == reason
}

// setReady sets whether the node is ready, and triggers a heartbeat.
func (n *node) setReady(ready bool, reason string) {
	n.mu.Lock()
	changed := n.ready != ready || n.reason != reason
	n.ready, n.reason = ready, reason
	n.mu.Unlock()
	if changed {
		n.log.Info("readiness", "ready", ready, "reason", reason)
		notify(n.heartbeatNow)
	}
}

// member returns the node as a member.
func (n *node) member() Member {
	address, _, _ := net.SplitHostPort(n.config.Health) // the provider has validated it
	n.mu.Lock()
	defer n.mu.Unlock()
	return Member{
		Name: n.config.Name, Identity: n.config.Identity, Role: n.config.Role, Version: n.config.Version, Address: address,
		Ready: n.ready, Since: n.started, Seen: time.Now(),
	}
}

func (n *node) heartbeat() cluster.Heartbeat {
	self := n.member()
	h := cluster.Heartbeat{
		Cluster: n.boot.Cluster, Node: n.boot.Node, Identity: self.Identity, Role: n.boot.Role, Version: self.Version, Address: self.Address, Ready: self.Ready,
	}
	n.mu.Lock()
	h.Reason = n.reason
	n.mu.Unlock()
	if n.controlNode != nil {
		h.Endpoint, h.CACert = "https://"+cmp.Or(n.config.Endpoint, n.config.API), n.controlNode.ca.pem
		h.Config = n.controlNode.config(h.Endpoint)
		for _, m := range n.controlNode.list() {
			if m.Ready {
				h.Joined = append(h.Joined, m.Name)
			}
		}
	}
	return h
}

func (n *node) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		self := n.member()
		n.mu.Lock()
		reason := n.reason
		n.mu.Unlock()
		answer(w, http.StatusOK, Health{
			Identity: self.Identity, Cluster: n.boot.Cluster, Node: self.Name, Role: self.Role, Version: self.Version, Ready: self.Ready, Reason: reason, PID: os.Getpid(),
		})
	})
	return mux
}

// httpServer serves until the context ends.
func (n *node) httpServer(ctx context.Context, group *errgroup.Group, listener net.Listener, handler http.Handler) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: log.New(io.Discard, "", 0), // ignore failed handshakes
	}
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close()
		}
		return nil
	})
}

// maxMissedWatches is how many checks a node waits for the provider's data directory,
// which may be away: unmounted or moved.
const maxMissedWatches = 10

// watch ends the node when its directory is gone: at once if only this directory is gone,
// later if the whole data directory of the provider is.
func (n *node) watch(ctx context.Context) error {
	for lost := 0; await(ctx, n.config.Times.Watch, nil); {
		var d Document
		switch err := disk.ReadJSON(filepath.Join(n.dir, File), &d); {
		case err == nil && d.Node.Identity != n.config.Identity:
			return errRemoved
		case !errors.Is(err, fs.ErrNotExist):
			lost = 0
			continue
		}
		_, err := os.Stat(filepath.Join(n.dir, "..", "..", MarkerFile))
		if lost++; err == nil || lost > maxMissedWatches {
			return errRemoved
		}
	}
	return nil
}

// read returns the content of a small file, or "".
func (n *node) read(name string) string {
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.log.Warn("a file cannot be read", "error", err)
	}
	return strings.TrimSpace(string(text))
}

func notify(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

func newTLSListener(address string, config *tls.Config) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the endpoint: %w", err)
	}
	return tls.NewListener(listener, config), nil
}
