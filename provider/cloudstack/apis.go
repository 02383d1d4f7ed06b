package cloudstack

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	customJobID  = "customjobid"
	rootDiskSize = "rootdisksize"
)

// apis caches the answer of listApis. It is read on first use and again after
// Options.Refresh.
type apis struct {
	reading sync.Mutex // one at a time

	mu     sync.Mutex
	known  map[string]map[string]bool // command -> its parameters, all in lower case
	readAt time.Time
}

// accepts reports whether a command has a parameter; with an empty parameter, whether the
// command exists.
func (a *apis) accepts(command, param string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, ok := a.known[strings.ToLower(command)]
	return ok && (param == "" || of[param])
}

func (a *apis) isFresh(life time.Duration) (fresh, any bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known != nil && time.Since(a.readAt) < life, a.known != nil
}

// learn reads listApis unless the cache is fresh. If the read fails, the cached answer
// stays.
func (p *Provider) learn(ctx context.Context) error {
	if fresh, _ := p.apis.isFresh(p.o.Refresh); fresh {
		return nil
	}
	p.apis.reading.Lock()
	defer p.apis.reading.Unlock()
	fresh, known := p.apis.isFresh(p.o.Refresh)
	if fresh {
		return nil
	}
	var answer struct {
		API []struct {
			Name   text `json:"name"`
			Params []struct {
				Name text `json:"name"`
			} `json:"params"`
		} `json:"api"`
	}
	if err := p.call(ctx, request{command: "listApis"}, &answer); err != nil {
		if known {
			return nil
		}
		return err
	}
	all := make(map[string]map[string]bool, len(answer.API))
	for _, api := range answer.API {
		of := make(map[string]bool, len(api.Params))
		for _, param := range api.Params {
			of[strings.ToLower(string(param.Name))] = true
		}
		all[strings.ToLower(string(api.Name))] = of
	}
	if len(all) == 0 {
		return unreadable("listApis", "it names no command")
	}
	p.apis.mu.Lock()
	defer p.apis.mu.Unlock()
	p.apis.known, p.apis.readAt = all, time.Now()
	return nil
}
