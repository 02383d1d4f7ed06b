package controller

import (
	"context"
	"encoding/json"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
)

// Positions keeps the positions of a machine in the status of typed objects. It implements
// machine.Objects for one kind. Client, Kind, New and Field are required.
type Positions[T client.Object] struct {
	Client client.Client
	Reader client.Reader               // reads objects; nil: Client. A stale read only costs a conflict
	Kind   string                      // the kind in references and subjects
	New    func() T                    // returns an empty object
	Field  func(T) *json.RawMessage    // returns the field of the status for the position
	Fill   func(T, machine.Move) error // sets the rest of the status in the same write; nil: no call
	Moved  func(T, machine.Move)       // called after each change of state was written; nil: no call
}

var _ machine.Objects[*Draft[client.Object]] = (*Positions[client.Object])(nil)

// Load implements machine.Objects.
func (p *Positions[T]) Load(ctx context.Context, ref control.Ref) (s machine.Snapshot[*Draft[T]], err error) {
	if ref.Kind != p.Kind {
		return s, control.NotFoundError(ref)
	}
	from := p.Reader
	if from == nil {
		from = p.Client
	}
	s.Object, err = Load(ctx, from, p.Client, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, p.New())
	return s, err
}

// Position implements machine.Objects.
func (p *Positions[T]) Position(d *Draft[T]) (at machine.Position, err error) {
	if raw := *p.Field(d.Object); len(raw) > 0 && string(raw) != "null" {
		err = json.Unmarshal(raw, &at)
	}
	return at, err
}

// Subject implements machine.Objects: kind/namespace/name/uid.
func (p *Positions[T]) Subject(d *Draft[T]) string {
	return Subject(p.Kind, d.Object)
}

// Write implements machine.Objects. It writes the position and the rest of the status at
// once.
func (p *Positions[T]) Write(ctx context.Context, d *Draft[T], move machine.Move) error {
	raw, err := json.Marshal(move.To)
	if err != nil {
		return err
	}
	*p.Field(d.Object) = raw
	if p.Fill != nil {
		if err := p.Fill(d.Object, move); err != nil {
			return err
		}
	}
	if _, err := d.Save(ctx); err != nil {
		return err
	}
	if p.Moved != nil && move.Cause.Changes() {
		p.Moved(d.Object, move)
	}
	return nil
}

// Subject returns the subject of the runs of an object: kind/namespace/name/uid.
func Subject(kind string, obj client.Object) string {
	return strings.Join([]string{kind, obj.GetNamespace(), obj.GetName(), string(obj.GetUID())}, "/")
}
