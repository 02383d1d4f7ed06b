package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// Endpoint is where an instance is reached.
type Endpoint struct {
	Agent  string // URL of its agent, with http: package transport speaks TLS there
	Engine Upstream
	Token  string // token of the cluster
	Former string // the token before, which the agent may still use after a rotation; empty: none

	Trust transport.Authorities // by which the agent is verified
}

// Locator finds instances. The adapters of port.Instances implement it.
type Locator interface {
	// Locate finds the instance id.Instance. POD_LOST if there is none of this name.
	Locate(ctx context.Context, id port.Ref) (Endpoint, error)
}

// Engine implements port.Engine with the agents of the instances.
type Engine struct {
	Locator Locator
	Clients *transport.Clients // nil: those of this process
}

var ownClients transport.Clients

// ClientFor returns the client of a server of a cluster. all nil: one of this process.
func ClientFor(all *transport.Clients, trust transport.Authorities, who port.Identity) *http.Client {
	if all == nil {
		all = &ownClients
	}
	return all.For(trust, who)
}

var _ port.Engine = Engine{}

// Status implements port.Engine.
func (e Engine) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	s, err := call[AgentStatus](ctx, e, id, http.MethodGet, "status", nil)
	return s.Status, err
}

// Install implements port.Engine.
func (e Engine) Install(ctx context.Context, id port.Ref, from port.Source, key string) error {
	in := installCall{Key: key, Restore: from.Restore}
	if from.From != "" {
		p, err := e.Locator.Locate(ctx, id.Of(from.From))
		if err != nil {
			return err
		}
		in.From = &p.Engine
	}
	_, err := call[nothing](ctx, e, id, http.MethodPost, "install", in)
	return err
}

// Start implements port.Engine.
func (e Engine) Start(ctx context.Context, id port.Ref) error {
	_, err := call[nothing](ctx, e, id, http.MethodPost, "start", nothing{})
	return err
}

// Stop implements port.Engine.
func (e Engine) Stop(ctx context.Context, id port.Ref, mode port.StopMode) error {
	_, err := call[nothing](ctx, e, id, http.MethodPost, "stop", stopCall{mode})
	return err
}

// Promote implements port.Engine.
func (e Engine) Promote(ctx context.Context, id port.Ref, epoch int64) error {
	_, err := call[nothing](ctx, e, id, http.MethodPost, "promote", promoteCall{Epoch: epoch})
	return err
}

// Follow implements port.Engine.
func (e Engine) Follow(ctx context.Context, id port.Ref, writer string) error {
	p, err := e.Locator.Locate(ctx, id.Of(writer))
	if err != nil {
		return err
	}
	_, err = call[nothing](ctx, e, id, http.MethodPost, "follow", followCall{p.Engine})
	return err
}

// Apply implements port.Engine.
func (e Engine) Apply(ctx context.Context, id port.Ref, params map[string]string) (bool, error) {
	out, err := call[applyAnswer](ctx, e, id, http.MethodPost, "apply", applyCall{params})
	return out.Restart, err
}

func call[Out any](ctx context.Context, e Engine, id port.Ref, method, verb string, in any) (Out, error) {
	p, err := e.Locator.Locate(ctx, id)
	if err != nil {
		var none Out
		return none, err
	}
	out, err := request[Out](ctx, ClientFor(e.Clients, p.Trust, port.InstanceIdentity(id)), p.Agent+"/v1/"+verb, keys(p.Token, p.Former), method, in)
	if err == nil {
		return out, nil
	}
	var dial *net.OpError
	refused := errors.As(err, &dial) && dial.Op == "dial"
	if fault.Of(err) == fault.Unknown && ctx.Err() == nil && (refused || method == http.MethodGet) { // nothing happened there
		return out, port.PodLost.Errorf("%s of %s: its agent cannot be asked: %w", verb, id, err).With("instance", id.Instance)
	}
	return out, fmt.Errorf("%s of %s: %w", verb, id, err)
}

// keys returns the token of a cluster and the one before it, if that is known.
func keys(token, former string) []string {
	if former == "" || former == token {
		return []string{token}
	}
	return []string{token, former}
}

// errToken is the error of a token that the agent does not accept, or not yet.
var errToken = errors.New("it does not take the token of the cluster; after the token was replaced, that lasts until its pod has the new one")

// request makes one HTTP call with the first of the tokens that is accepted.
func request[Out any](ctx context.Context, client *http.Client, url string, tokens []string, method string, in any) (out Out, err error) {
	for _, token := range tokens {
		if out, err = requestWith[Out](ctx, client, url, token, method, in); !errors.Is(err, errToken) {
			break
		}
	}
	return out, err
}

func requestWith[Out any](ctx context.Context, client *http.Client, url, token, method string, in any) (Out, error) {
	var out Out
	var body io.Reader = http.NoBody
	if in != nil {
		body = bytes.NewReader(mustJSON(in))
	}
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return out, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return out, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return out, err
	}
	if response.StatusCode == http.StatusUnauthorized {
		return out, errToken
	}
	if response.StatusCode != http.StatusOK {
		return out, readProblem(response.StatusCode, data)
	}
	err = decode(data, &out)
	return out, err
}

// parallel runs do for all names concurrently and waits.
func parallel(names []string, do func(name string)) {
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { do(name) })
	}
	all.Wait()
}

var _ port.Archiver = Engine{}

// Archive implements port.Archiver.
func (e Engine) Archive(ctx context.Context, id port.Ref, to *port.Repository) error {
	_, err := call[nothing](ctx, e, id, http.MethodPost, "archive", archiveCall{to})
	return err
}

// Backup implements port.Archiver.
func (e Engine) Backup(ctx context.Context, id port.Ref, want port.BackupOrder) (port.Backup, error) {
	return call[port.Backup](ctx, e, id, http.MethodPost, "backup", want)
}

// Backups implements port.Archiver.
func (e Engine) Backups(ctx context.Context, id port.Ref) ([]port.Backup, error) {
	return call[[]port.Backup](ctx, e, id, http.MethodGet, "backups", nil)
}

// Verify implements port.Archiver.
func (e Engine) Verify(ctx context.Context, id port.Ref, want port.VerifyOrder) (port.Backup, error) {
	return call[port.Backup](ctx, e, id, http.MethodPost, "verify", want)
}
