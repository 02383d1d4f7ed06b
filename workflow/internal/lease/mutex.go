package lease

import "context"

// Mutex is a mutex whose Lock ends with its context.
type Mutex chan struct{}

// NewMutex returns an unlocked mutex.
func NewMutex() Mutex { return make(Mutex, 1) }

// Lock waits for the mutex, or for the end of the context, whose error it returns.
func (t Mutex) Lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock frees the mutex.
func (t Mutex) Unlock() { <-t }
