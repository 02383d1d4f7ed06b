package clusters

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// delete deletes a child of the cluster. The evidence says what has proved that this is safe; people
// find it in an Event.
func (p *pass) delete(ctx context.Context, child port.Object, kind, evidence string) error {
	if err := p.objects.Delete(ctx, child); err != nil {
		return err
	}
	p.memory.writes.Deleted(child.GetUID(), p.now)
	t := metaTime(p.now)
	child.SetDeletionTimestamp(&t)
	p.objects.Tell(p.stored, port.Event{Reason: "Deleted" + kind, Message: child.GetName() + ": " + evidence})
	return nil
}

// create makes a child of the cluster.
func (p *pass) create(ctx context.Context, child port.Object) error {
	if err := p.objects.Create(ctx, child); err != nil {
		return err
	}
	p.memory.writes.Wrote(child, true, p.now)
	return nil
}

// patch changes a child of the cluster.
func (p *pass) patch(ctx context.Context, child port.Object, patch []byte) error {
	if err := p.objects.Patch(ctx, child, patch); err != nil {
		return err
	}
	p.memory.writes.Wrote(child.DeepCopyObject().(port.Object), false, p.now) //nolint:forcetypeassert // the copy of an Object is one
	return nil
}

// creating is the act of making children of groups. add notes one.
func creating[T port.Object](name, reason string, missing []T, add func(*member, T)) act {
	note := func(p *pass, child T) {
		if id, ok := p.ownerOf(child); ok {
			add(p.member(id), child)
		}
	}
	return act{
		Name: name, Targets: objectNames(missing),
		Assume: func(p *pass) {
			for _, child := range missing {
				note(p, child)
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, missing, reason, func(child T) error {
				err := p.create(ctx, child)
				if err == nil {
					note(p, child)
				}
				if errors.Is(err, control.Exists) { // the list was late
					return nil
				}
				return err
			})
		},
	}
}

// each does something for each of several objects. What fails for one holds back that one only: the
// outcome is then Later with the first reason. The API server's trouble ends it.
func each[T any](ctx context.Context, all []T, again string, do func(T) error) outcome.Outcome {
	var first error
	failed := 0
	for _, one := range all {
		if ctx.Err() != nil {
			return outcome.Fail(context.Cause(ctx))
		}
		if err := do(one); err != nil {
			if fault.Of(err).Uncharged {
				return outcome.Fail(err)
			}
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if first == nil {
		return outcome.Done()
	}
	return outcome.Later(startAgain, again, "%d of %d: %v", failed, len(all), first)
}

// texts are what is said of each of several things.
func texts[T any](all []T, text func(T) string) []string {
	said := make([]string, len(all))
	for i, one := range all {
		said[i] = text(one)
	}
	return said
}

func objectNames[T port.Object](objects []T) []string { return texts(objects, T.GetName) }

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }
