package sharedstorage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// talkingManager is a manager whose observations the test sets.
type talkingManager struct {
	port.Manager
	said chan string // "": it does not answer
}

func (m talkingManager) Await(ctx context.Context, _ port.Ref, _ string) (string, error) {
	select {
	case digest := <-m.said:
		if digest == "" {
			return "", errors.New("no answer")
		}
		return digest, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// A pass is due when a manager observes something else, when it falls silent, and when it answers
// again. The watch ends with the cluster, and with the one who listens.
func TestAManagerIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := talkingManager{said: make(chan string)}
		o := &Operator{options: Options{Ports: port.Ports{Manager: m}}, subscribers: map[int]func(control.Ref){}}
		ctx, cancel := context.WithCancel(t.Context())
		due, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			o.Listen(ctx, func(control.Ref) { due++ })
		}()
		synctest.Wait()
		c := fixture()
		ref := control.Ref{Kind: Kind, Namespace: "default", Name: "blue"}
		o.watchManager(ref, c)
		o.watchManager(ref, c) // each pass calls it
		for n, step := range []struct {
			says   string
			silent bool
			due    int
		}{
			{"a", false, 0}, {"a", false, 0}, {"b", false, 1}, {"", true, 2}, {"", true, 2}, {"b", false, 3}, {"c", false, 4},
		} {
			m.said <- step.says
			time.Sleep(silentPause)
			synctest.Wait()
			if due != step.due || o.watches.silent(c.Ref) != step.silent {
				t.Errorf("step %d: %d passes are due, silent %t", n, due, o.watches.silent(c.Ref))
			}
		}
		c.DeletedAt = at
		o.watchManager(ref, c)
		synctest.Wait()
		select {
		case m.said <- "d":
			t.Error("the manager of a cluster that is being deleted is still watched")
		default:
		}
		c.DeletedAt = time.Time{}
		o.watchManager(ref, c)
		cancel()
		<-ended
	})
}
