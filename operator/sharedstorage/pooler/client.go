package pooler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// Endpoint is where the supervisor of a pooler is reached.
type Endpoint struct {
	Name  string
	Node  string
	URL   string // empty: it has no address yet
	Token string

	Trust transport.Authorities // by which it is verified
}

// Hosts runs poolers: as processes or pods.
type Hosts interface {
	// Ensure creates and removes poolers until there are want.Instances. It does not wait.
	Ensure(ctx context.Context, c port.Ref, want port.PoolerSpec) error
	// List returns the poolers of a cluster.
	List(ctx context.Context, c port.Ref) ([]Endpoint, error)
}

// Port implements port.Pooler over HTTP.
type Port struct {
	Hosts   Hosts
	Locator postgres.Locator
	Clients *transport.Clients // nil: those of this process
}

var _ port.Pooler = Port{}

// answersWithin is how long a supervisor may take for an order, besides what the order itself waits for.
const answersWithin = 2 * time.Second

// Ensure implements port.Pooler.
func (p Port) Ensure(ctx context.Context, c port.Ref, want port.PoolerSpec) error {
	if err := p.Hosts.Ensure(ctx, c, want); err != nil || want.Instances == 0 {
		return err
	}
	target, err := p.target(ctx, c, want.Writer)
	if err != nil {
		return err
	}
	return p.all(ctx, c, answersWithin, "set", setCall{want.Settings, target})
}

// Pause implements port.Pooler.
func (p Port) Pause(ctx context.Context, c port.Ref, settle, limit time.Duration) error {
	return p.all(ctx, c, settle+answersWithin, "pause", pauseCall{host.Duration(settle), host.Duration(limit)})
}

// Resume implements port.Pooler.
func (p Port) Resume(ctx context.Context, c port.Ref, writer string) error {
	target, err := p.target(ctx, c, writer)
	if err != nil {
		return err
	}
	return p.all(ctx, c, answersWithin, "resume", resumeCall{target})
}

// Observe implements port.Pooler.
func (p Port) Observe(ctx context.Context, c port.Ref) ([]port.PoolerStatus, error) {
	places, err := p.Hosts.List(ctx, c)
	if err != nil {
		return nil, err
	}
	found := make([]port.PoolerStatus, len(places))
	var asking sync.WaitGroup
	for n, at := range places {
		asking.Go(func() {
			limited, cancel := context.WithTimeout(ctx, answersWithin)
			defer cancel()
			st := &found[n]
			if err := p.ask(limited, c, at, http.MethodGet, "status", nil, st); err != nil {
				*st = port.PoolerStatus{Message: err.Error()}
			}
			st.Name, st.Node = at.Name, at.Node
		})
	}
	asking.Wait()
	slices.SortFunc(found, func(a, b port.PoolerStatus) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

func (p Port) target(ctx context.Context, c port.Ref, writer string) (string, error) {
	if writer == "" {
		return "", nil
	}
	at, err := p.Locator.Locate(ctx, c.Of(writer))
	return net.JoinHostPort(at.Engine.Host, strconv.Itoa(int(at.Engine.Port))), err
}

// all gives an order to all poolers at once. One that has no address yet is left out.
func (p Port) all(ctx context.Context, c port.Ref, limit time.Duration, verb string, in any) error {
	places, err := p.Hosts.List(ctx, c)
	if err != nil {
		return err
	}
	wrong := make([]error, len(places))
	var asking sync.WaitGroup
	for n, at := range places {
		if at.URL == "" {
			continue
		}
		asking.Go(func() {
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if err := p.ask(limited, c, at, http.MethodPost, verb, in, nil); err != nil {
				wrong[n] = port.PoolerFailed.Errorf("%s at pooler %s: %w", verb, at.Name, err).With("pooler", at.Name)
			}
		})
	}
	asking.Wait()
	return errors.Join(wrong...)
}

func (p Port) ask(ctx context.Context, c port.Ref, at Endpoint, method, verb string, in, out any) error {
	if at.URL == "" {
		return errors.New("it has no address yet")
	}
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, at.URL+"/v1/"+verb, body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+at.Token)
	response, err := postgres.ClientFor(p.Clients, at.Trust, port.PoolerIdentity(c)).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var told problem
		if json.Unmarshal(data, &told) != nil || told.Message == "" {
			told.Message = "it answers " + response.Status
		}
		return errors.New(told.Message)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}
