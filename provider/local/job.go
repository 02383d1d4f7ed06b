package local

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/local/internal/host"
)

// job is an action in progress. Its text holds its whole state: any process can poll it.
type job struct {
	act      cluster.Action
	id       string
	identity string
	at       time.Time // time of the request
}

func (j job) String() string {
	return strings.Join([]string{string(j.act), j.id, j.identity, strconv.FormatInt(j.at.UnixNano(), 10)}, "/")
}

func parseJob(text string) (job, error) {
	part := strings.Split(text, "/")
	if len(part) != 4 {
		return job{}, cluster.ProviderRefused.Errorf("job %q: no such job", text)
	}
	at, err := strconv.ParseInt(part[3], 10, 64)
	if err != nil {
		return job{}, cluster.ProviderRefused.Errorf("job %q: no such job", text)
	}
	return job{act: cluster.Action(part[0]), id: part[1], identity: part[2], at: time.Unix(0, at)}, nil
}

// pollInterval is the time until an unfinished job should be polled again.
const pollInterval = 250 * time.Millisecond

// step observes the VM once and acts at most once.
func (p *Provider) step(ctx context.Context, j job) (cluster.Progress, error) {
	p.reapChildren()
	lock := p.lockOf(j.id)
	lock.Lock()
	defer lock.Unlock()
	r, err := p.data.load(j.id)
	if err == nil && r.unreadable == "" && j.identity != "" && r.Identity != j.identity {
		err = goneError(j.id, nil) // another resource has the key by now
	}
	if errors.Is(err, cluster.ErrGone) {
		if j.act == cluster.Destroy {
			return cluster.Progress{Done: true}, nil
		}
		return cluster.Progress{Done: true, Err: err}, nil
	}
	if err != nil {
		return cluster.Progress{}, err
	}
	if r.Kind == cluster.Network {
		return p.stepNetwork(r, j)
	}
	s, err := p.observe(ctx, r)
	if err != nil {
		return cluster.Progress{}, err
	}
	done := cluster.Progress{Done: true, Ref: r.ref()}
	open := cluster.Progress{Ref: r.ref(), PollAfter: pollInterval}
	switch j.act {
	case cluster.Start:
		switch s.state {
		case running:
			return done, nil
		case stopped:
			if at := p.mark(r, launchFile).At; !at.Before(j.at) {
				done.Err = cluster.ProviderRefused.Errorf("%s: the process has ended; %s", r.Name, p.logTail(r))
				return done, nil
			}
			return open, p.launch(r)
		case unread:
			done.Err = cluster.ProviderRefused.Errorf("%s: %s", j.id, r.unreadable)
			return done, nil
		case silent:
			if p.options.Now().Sub(j.at) > p.options.StartWithin {
				done.Err = cluster.ProviderRefused.Errorf("%s: the process does not answer; %s", r.Name, p.logTail(r))
				return done, nil
			}
		}
		return open, nil
	case cluster.Stop, cluster.ForceStop:
		switch s.state {
		case stopped:
			return done, nil
		case unread:
			done.Err = cluster.ProviderRefused.Errorf("%s: %s", j.id, r.unreadable)
			return done, nil
		}
		return open, p.halt(r, s, func(time.Duration) bool { return j.act == cluster.ForceStop })
	case cluster.Destroy:
		// Leave a process alone if it has no record or cannot be proven: it ends when its
		// directory is gone.
		lost := s.state == silent && s.process == (host.Process{}) && p.options.Now().Sub(j.at) > p.options.StopWithin
		if s.state != stopped && s.state != unread && !lost {
			return open, p.halt(r, s, func(since time.Duration) bool { return since > p.options.StopWithin })
		}
		return done, p.removeVM(r)
	}
	return cluster.Progress{}, cluster.ProviderRefused.Errorf("%s: a VM has no action %q", r.Name, j.act)
}

// removeVM removes the directory of a VM.
func (p *Provider) removeVM(r *record) error {
	unlock, err := p.data.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return p.data.remove(r.ID)
}

func (p *Provider) stepNetwork(r *record, j job) (cluster.Progress, error) {
	done := cluster.Progress{Done: true, Ref: r.ref()}
	if j.act != cluster.Destroy {
		done.Err = cluster.ProviderRefused.Errorf("%s: a network has no action %q", r.Name, j.act)
		return done, nil
	}
	unlock, err := p.data.lock() // keeps new VMs out of the network
	if err != nil {
		return cluster.Progress{}, err
	}
	defer unlock()
	vms, err := p.data.list(cluster.VM, "")
	if err != nil {
		return cluster.Progress{}, err
	}
	for _, vm := range vms {
		if vm.Spec.Network == r.ID {
			return cluster.Progress{}, cluster.ResourceInUse.Errorf("network %s: VM %s is in it", r.Name, vm.Name)
		}
	}
	return done, p.data.remove(r.ID)
}

// settle repeats step until the job is done or Options.Patience is over. The caller then
// polls the job.
func (p *Provider) settle(ctx context.Context, j job) (cluster.Call, error) {
	deadline := time.Now().Add(p.options.Patience)
	call := cluster.Call{Job: j.String(), Ref: cluster.Ref{ID: j.id, Identity: j.identity, Zone: ZoneID}}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, pollInterval) {
		progress, err := p.step(ctx, j)
		if progress.Ref.ID != "" {
			call.Ref = progress.Ref
		}
		switch {
		case err != nil:
			return call, err
		case progress.Done && progress.Err != nil:
			return call, progress.Err
		case progress.Done:
			call.Job, call.Done = "", true
			return call, nil
		case time.Now().Add(pause).After(deadline):
			return call, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return call, nil // the action continues; Poll reports its progress
		case <-timer.C:
		}
	}
}
