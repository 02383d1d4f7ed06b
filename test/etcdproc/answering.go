package etcdproc

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	roundPause  = 50 * time.Millisecond
	answerLimit = 10 * time.Second // of one member in one round: machines are busy
)

// Dial opens a connection to a member; nil: as net.Dialer does. Endpoints may have names that only it
// resolves.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Answering asks all members all the time for a linearizable read.
type Answering struct {
	client *http.Client
	urls   []string
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	least  int
	rounds int
}

// StartAnswering begins to ask. Stop ends it.
func StartAnswering(dial Dial, urls ...string) *Answering {
	ctx, stop := context.WithCancel(context.Background())
	a := &Answering{
		client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		urls:   urls, stop: stop, done: make(chan struct{}), least: len(urls),
	}
	go a.run(ctx)
	return a
}

func (a *Answering) run(ctx context.Context) {
	defer close(a.done)
	pace := time.NewTicker(roundPause)
	defer pace.Stop()
	for {
		var round sync.WaitGroup
		answered := make([]bool, len(a.urls))
		for i, url := range a.urls {
			round.Go(func() { answered[i] = a.ask(ctx, url) })
		}
		round.Wait()
		if ctx.Err() != nil {
			return // a round that was cut short says nothing
		}
		n := 0
		for _, ok := range answered {
			if ok {
				n++
			}
		}
		a.mu.Lock()
		a.least, a.rounds = min(a.least, n), a.rounds+1
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
	}
}

// ask reports whether a member answers within the limit. One that waits for an election, or that has
// just come back, is asked again; one that takes no connection does not answer.
func (a *Answering) ask(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	again := time.NewTicker(roundPause)
	defer again.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return false
		}
		resp, err := a.client.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
		}
	}
}

// Least is the smallest number of members that answered in one round, and the number of rounds.
func (a *Answering) Least() (members, rounds int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.least, a.rounds
}

// Stop ends the questions.
func (a *Answering) Stop() {
	a.stop()
	<-a.done
	a.client.CloseIdleConnections()
}
