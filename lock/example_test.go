package lock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/lock"
)

func ExampleLocker() {
	ctx, backend := context.Background(), &lock.Memory{}
	east := lock.Locker{Backend: backend, Owner: "east"}
	west := lock.Locker{Backend: backend, Owner: "west"}

	held, _ := east.Take(ctx, "database")
	refused, _ := west.Take(ctx, "database")
	fmt.Println(held.Granted, refused.Granted, refused.Outcome(10*time.Second).Reason())

	_, _ = east.Release(ctx, "database")
	held, _ = west.Take(ctx, "database")
	fmt.Println(held.Granted)
	// Output:
	// true false LockNotHeld
	// true
}
