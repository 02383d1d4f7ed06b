package control

import (
	"context"
	"errors"
)

// Admission returns why an object may not be stored; nil: it may. stored reads the
// existing object; nil: there is none.
type Admission func(ctx context.Context, want Object, stored func() (*Object, error)) error

// Admit returns objects whose Apply and Update call the admission first. Delete does not.
func Admit(objects Objects, admission Admission) Objects { return admitting{objects, admission} }

type admitting struct {
	Objects
	admission Admission
}

// Apply implements Objects.
func (a admitting) Apply(ctx context.Context, want Object) (Object, error) {
	if err := a.check(ctx, want); err != nil {
		return Object{}, err
	}
	return a.Objects.Apply(ctx, want)
}

// Update implements Objects.
func (a admitting) Update(ctx context.Context, next Object) (Object, error) {
	if err := a.check(ctx, next); err != nil {
		return Object{}, err
	}
	return a.Objects.Update(ctx, next)
}

func (a admitting) check(ctx context.Context, want Object) error {
	return a.admission(ctx, want, func() (*Object, error) {
		o, err := a.Get(ctx, want.Ref)
		if errors.Is(err, NotFound) {
			return nil, nil //nolint:nilnil // there is none yet
		}
		return &o, err
	})
}
