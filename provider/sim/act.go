package sim

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Trash is an action that only the cloud itself performs: it destroys a VM without
// expunging it.
const Trash cluster.Action = "trash"

// actions start, stop and destroy resources.
type actions struct {
	o         *Options
	inventory *inventory
	jobs      *jobs
}

// act starts, stops or destroys. callID may be empty.
func (s *actions) act(ref cluster.Ref, a cluster.Action, callID string, now time.Time, e *Entry, r *rule) (cluster.Call, error) {
	if ref.ID == "" {
		return cluster.Call{}, cluster.ProviderRefused.Errorf("%s %s without an id", ref.Kind, ref.Name)
	}
	t, ok := s.inventory.byID[ref.ID]
	switch {
	case !ok || t.Kind != ref.Kind:
		if a == cluster.Destroy {
			return cluster.Call{Ref: ref, Done: true}, nil
		}
		return cluster.Call{}, goneError(ref)
	case ref.Identity != "" && ref.Identity != t.Identity:
		return cluster.Call{}, cluster.ProviderRefused.Errorf("%s %s is another resource: identity %s, not %s", t.Kind, t.ID, t.Identity, ref.Identity)
	}
	e.Name = t.Name
	if j, ok := s.jobs.byID[t.Job]; ok && !j.Done && j.What == string(a) && callID == "" {
		e.Job = j.ID
		return j.call(), nil
	}
	if a == cluster.Destroy {
		return s.destroy(t, callID, now, e, r)
	}
	if t.Kind != cluster.VM {
		return cluster.Call{}, cluster.ProviderRefused.Errorf("%s %s cannot %s", t.Kind, t.Name, a)
	}
	done, err := checkTransition(t, a)
	switch {
	case err != nil:
		return cluster.Call{}, err
	case done && callID != "":
		return s.jobs.addFinished(t, string(a), callID, now).call(), nil
	case done:
		return cluster.Call{Ref: t.ref(), Done: true}, nil
	}
	took := s.o.Times.Start
	if a != cluster.Start {
		took = s.o.Times.Stop
	}
	j := s.jobs.begin(t, string(a), callID, took, now, r)
	e.Job = j.ID
	return j.call(), nil
}

// checkTransition reports whether the VM is already in the state that the action leads to.
// The error says why the action is not possible now.
func checkTransition(t *resource, a cluster.Action) (done bool, err error) {
	busy := cluster.ResourceInUse.Errorf("VM %s is %s", t.Name, t.State)
	never := cluster.ProviderRefused.Errorf("VM %s is %s", t.Name, t.State)
	up := a == cluster.Start
	if a == Trash {
		return t.State == stateDestroyed, nil
	}
	switch t.State {
	case stateRunning:
		return up, nil
	case stateStopped:
		return !up, nil
	case stateMigrating:
		if up {
			return true, nil
		}
		return false, busy
	case stateStarting, stateStopping:
		if a == cluster.ForceStop {
			return false, nil
		}
		return false, busy
	case stateError:
		if a == cluster.ForceStop {
			return false, nil
		}
		return false, never
	default: // Destroyed, Expunging
		return false, never
	}
}

func (s *actions) destroy(t *resource, callID string, now time.Time, e *Entry, r *rule) (cluster.Call, error) {
	took := s.o.Times.Rule
	switch t.Kind {
	case cluster.VM:
		took = s.o.Times.Destroy
	case cluster.KeyPair:
		took = 0
	case cluster.Network:
		took = s.o.Times.Network
		for _, other := range s.inventory.inNetwork(t) {
			if other.Kind == cluster.VM {
				return cluster.Call{}, cluster.ResourceInUse.Errorf("network %s has VM %s", t.Name, other.Name)
			}
		}
	case cluster.Address:
		if _, lives := s.inventory.byID[t.Spec.Network]; lives && t.SourceNAT {
			return cluster.Call{}, cluster.ProviderRefused.Errorf("address %s is the source NAT of its network", t.Address)
		}
	}
	j := s.jobs.begin(t, string(cluster.Destroy), callID, took, now, r)
	e.Job = j.ID
	return j.call(), nil
}

func goneError(ref cluster.Ref) error {
	return fmt.Errorf("%s %s %s: %w", ref.Kind, ref.Name, ref.ID, cluster.ErrGone)
}
