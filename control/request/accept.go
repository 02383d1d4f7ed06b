package request

import "context"

// Guard changes annotations of one object by writes that test the value they replace. They
// return false when the annotation has another value by now, or the object is gone. An error
// leaves open whether the write happened.
type Guard interface {
	Set(ctx context.Context, key, old, value string) (bool, error)
	Remove(ctx context.Context, key, old string) (bool, error)
}

// Annotation is one annotation that holds a request.
type Annotation struct {
	Key, Value string
	Stamped    bool // the value has an id
}

// Accept carries one request out in three steps: it stamps the value, calls accept with the
// stamped value, and removes the annotation. stamp returns the value with an id. accept must
// be idempotent for one id, and save the answer, a refusal too; its error means that the
// call has to be repeated, and then the annotation stays.
func Accept(ctx context.Context, a Annotation, guard Guard, stamp func(value string) string, accept func(ctx context.Context, value string) error) error {
	if !a.Stamped {
		value := stamp(a.Value)
		set, err := guard.Set(ctx, a.Key, a.Value, value)
		if err != nil || !set {
			return err
		}
		a.Value = value
	}
	if err := accept(ctx, a.Value); err != nil {
		return err
	}
	_, err := guard.Remove(ctx, a.Key, a.Value)
	return err
}
