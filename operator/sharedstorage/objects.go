package sharedstorage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// subject returns the subject of the runs of a cluster: kind/namespace/name/uid.
func (c *Cluster) subject() string {
	s := c.Kind + "/" + c.Ref.Namespace + "/" + c.Ref.Name
	if c.Ref.UID != "" {
		s += "/" + c.Ref.UID
	}
	return s
}

// refOf parses a subject.
func refOf(subject string) (ref control.Ref, uid string, err error) {
	if strings.Count(subject, "/") == 3 {
		cut := strings.LastIndexByte(subject, '/')
		subject, uid = subject[:cut], subject[cut+1:]
	}
	ref, err = control.ParseRef(subject)
	return ref, uid, err
}

// load reads a cluster from its store.
func (o *Operator) load(ctx context.Context, ref control.Ref) (*Cluster, error) {
	store := o.stores[ref.Kind]
	if store == nil {
		return nil, control.NotFoundError(ref)
	}
	c, err := store.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return nil, err
	}
	c.Kind, c.Spec.Engine.Version = ref.Kind, cmp.Or(c.Spec.Engine.Version, o.options.Version)
	return c, nil
}

// save writes status and finalizer if they have changed since the load.
func (o *Operator) save(ctx context.Context, c *Cluster, before *snapshot) error {
	if before != nil && before.equal(c) {
		return nil
	}
	return o.stores[c.Kind].Save(ctx, c)
}

// snapshot is a copy of what save writes.
type snapshot struct {
	status    []byte
	finalized bool
}

func snap(c *Cluster) *snapshot {
	raw, _ := json.Marshal(c.Status)
	return &snapshot{status: raw, finalized: c.Finalized}
}

func (s *snapshot) equal(c *Cluster) bool {
	now := snap(c)
	if s.finalized != now.finalized {
		return false
	}
	if bytes.Equal(s.status, now.status) {
		return true
	}
	a, errA := runtype.Decode(s.status)
	b, errB := runtype.Decode(now.status)
	return errA == nil && errB == nil && reflect.DeepEqual(a, b)
}

// objects implements machine.Objects: it keeps the position of a cluster in its status.
type objects struct{ o *Operator }

// Load implements machine.Objects.
func (s objects) Load(ctx context.Context, ref control.Ref) (machine.Snapshot[*Cluster], error) {
	c, err := s.o.load(ctx, ref)
	if err != nil {
		return machine.Snapshot[*Cluster]{}, err
	}
	c.Facts = s.o.observe(ctx, c)
	return machine.Snapshot[*Cluster]{Object: c}, nil
}

// Position implements machine.Objects.
func (objects) Position(c *Cluster) (machine.Position, error) { return positionOf(c) }

func positionOf(c *Cluster) (p machine.Position, err error) {
	if len(c.Status.Position) > 0 {
		if err := json.Unmarshal(c.Status.Position, &p); err != nil {
			return p, err
		}
	}
	p.Code = Code(string(p.Code))
	return p, nil
}

// Subject implements machine.Objects.
func (objects) Subject(c *Cluster) string { return c.subject() }

// Write implements machine.Objects. One write carries position, requests and the whole status.
func (s objects) Write(ctx context.Context, c *Cluster, move machine.Move) error {
	raw, err := json.Marshal(move.To)
	if err != nil {
		return err
	}
	c.Status.Position = raw
	var run *runtype.Run
	if move.Cause == machine.ByAbort {
		if run, err = s.o.runOf(ctx, move.From); err != nil {
			return err
		}
	}
	s.o.closeRequests(c, move, run)
	if move.Cause == machine.ByEvent {
		if err := takeIDs(c, move.To); err != nil {
			return err
		}
	}
	s.o.compute(c, view{position: move.To, moved: true})
	if err := s.o.stores[c.Kind].Save(ctx, c); err != nil {
		return err
	}
	if move.Cause.Changes() {
		s.o.emit(c, Event{Warning: move.Cause == machine.ByElse, Reason: cmp.Or(move.To.Reason, string(move.To.State)), Message: fmt.Sprintf("%s: %s", move.To.State, cmp.Or(move.To.Message, string(move.Cause)))})
		if s.o.options.Moved != nil {
			s.o.options.Moved(control.Ref{Kind: c.Kind, Namespace: c.Ref.Namespace, Name: c.Ref.Name}, move)
		}
	}
	return nil
}

// takeIDs raises NextID above the places that an event uses, in the same write, so that no place
// is used twice.
func takeIDs(c *Cluster, to machine.Position) error {
	var in Input
	if len(to.Params) > 0 {
		if err := json.Unmarshal(to.Params, &in); err != nil {
			return err
		}
	}
	c.Status.NextID = max(c.Status.NextID, in.Next)
	return nil
}

func (o *Operator) emit(c *Cluster, e Event) {
	if o.options.Event != nil {
		o.options.Event(c, e)
	}
}
