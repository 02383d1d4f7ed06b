// Package porttest is the conformance suite of the ports: what every implementation promises to
// the operator.
//
//	func TestPorts(t *testing.T) { porttest.Run(t, func(t *testing.T) porttest.Fixture { … }) }
//
// Each test case gets a fixture of its own, with nodes of its own, and fresh may call t.Parallel.
// Time passes only in Fixture.Await, so a simulation with a virtual clock and real processes pass
// the same tests.
package porttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Fixture is a fresh set of ports, with functions that cause failures behind them.
type Fixture struct {
	Ports   port.Ports
	Cluster port.Ref         // the cluster under test; zero: porttest/c
	Now     func() time.Time // the clock behind the ports

	// Await lets time pass until holds returns nil, and fails the test after limit, which is time
	// of the clock behind the ports.
	Await func(t *testing.T, limit time.Duration, what string, holds func() error)
	// Kill ends an instance like a power cut: its engine and its agent are gone at once, and stay
	// so until Instances.Ensure and Engine.Start.
	Kill func(t *testing.T, id port.Ref)
	// Break makes a node fail with everything that runs on it; Repair brings the node back.
	Break, Repair func(t *testing.T, node string)

	// Reopen returns the ports of a restarted operator. nil: Ports.
	Reopen func(t *testing.T) port.Ports
	// Lose makes the next call take effect and lose its answer. nil: those test cases are skipped.
	Lose func(t *testing.T)
	// Insert commits a row in an instance, and Rows returns all of them, sorted. nil: those checks
	// are skipped.
	Insert func(id port.Ref, row string) error
	Rows   func(id port.Ref) ([]string, error)

	// Limit is how long any one step may take on the clock behind the ports. Default: 2 minutes.
	Limit time.Duration
	// Reload is a parameter that needs no restart, Restart one that does, each with a value that
	// is not its default. Wrong is one that the engine rejects. Reload nil: parameters are not
	// tested.
	Reload, Restart, Wrong map[string]string
}

// Run runs the conformance suite.
func Run(t *testing.T, fresh func(t *testing.T) Fixture) {
	for _, q := range slices.Concat(storageCases, instanceCases, recreateCases, suspendCases, engineCases, managerCases) {
		t.Run(q.name, func(t *testing.T) {
			r := fresh(t)
			if r.Limit == 0 {
				r.Limit = 2 * time.Minute
			}
			if r.Cluster == (port.Ref{}) {
				r.Cluster = port.Ref{Namespace: "porttest", Name: "c", UID: "1"}
			}
			if r.Reopen == nil {
				r.Reopen = func(*testing.T) port.Ports { return r.Ports }
			}
			q.run(&suite{Fixture: r, t: t, ctx: t.Context()})
		})
	}
}

type testCase struct {
	name string
	run  func(e *suite)
}

// suite is the state of one test case.
type suite struct {
	Fixture
	t     *testing.T
	ctx   context.Context
	epoch int64
}

func (e *suite) must(what string, err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("%s: %v", what, err)
	}
}

// refused checks that err is of this kind.
func (e *suite) refused(what string, err, kind error) {
	e.t.Helper()
	if !errors.Is(err, kind) {
		e.t.Errorf("%s: got %v, want %v", what, err, kind)
	}
}

func (e *suite) await(what string, holds func() error) {
	e.t.Helper()
	e.Await(e.t, e.Limit, what, holds)
}

// instance returns an instance as the operator requests it: spread over nodes.
func (e *suite) instance(name string, kind port.Type) port.Instance {
	return port.Instance{Name: name, ID: name, Type: kind, Spread: "kubernetes.io/hostname"}
}

// up creates an instance and waits until its agent answers.
func (e *suite) up(want port.Instance) port.Instance {
	e.t.Helper()
	var got port.Instance
	e.await("instance "+want.Name+" is up", func() (err error) {
		if got, err = e.Ports.Instances.Ensure(e.ctx, e.Cluster, want); err == nil && got.State != port.Up {
			err = fmt.Errorf("%s %s", got.State, got.Message)
		}
		return err
	})
	return got
}

func (e *suite) list() []port.Instance {
	e.t.Helper()
	all, err := e.Ports.Instances.List(e.ctx, e.Cluster)
	e.must("list", err)
	return all
}

func (e *suite) find(name string) (port.Instance, bool) {
	e.t.Helper()
	all := e.list()
	i := slices.IndexFunc(all, func(i port.Instance) bool { return i.Name == name })
	if i < 0 {
		return port.Instance{}, false
	}
	return all[i], true
}

// until waits for a status.
func (e *suite) until(name, what string, holds func(port.Status) bool) port.Status {
	e.t.Helper()
	var s port.Status
	e.await(name+" "+what, func() (err error) {
		if s, err = e.Ports.Engine.Status(e.ctx, e.Cluster.Of(name)); err == nil && !holds(s) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	return s
}

func (e *suite) writes(name string, epoch int64) port.Status {
	e.t.Helper()
	return e.until(name, fmt.Sprintf("writes under epoch %d", epoch), func(s port.Status) bool {
		return s.Ready && s.Running && s.Role == port.Primary && s.Epoch == epoch
	})
}

func (e *suite) streams(name, upstream string) port.Status {
	e.t.Helper()
	return e.until(name, "streams from "+upstream, func(s port.Status) bool {
		return s.Ready && s.Running && s.Role == port.Follower && s.Streaming && s.Upstream == upstream
	})
}

func (e *suite) grant(writer string) {
	e.t.Helper()
	e.epoch++
	e.must("grant", e.Ports.Storage.Grant(e.ctx, e.Cluster, writer, e.epoch))
}

// volume creates the volume.
func (e *suite) volume() {
	e.t.Helper()
	e.await("the volume is ready", func() error {
		v, err := e.Ports.Storage.Ensure(e.ctx, e.Cluster, port.Volume{Size: 1 << 30}, "volume")
		if err == nil && v.State != port.VolumeReady {
			err = fmt.Errorf("%s %s", v.State, v.Message)
		}
		return err
	})
}

// writer creates the volume and the first writer.
func (e *suite) writer(name string) {
	e.t.Helper()
	e.volume()
	e.up(e.instance(name, port.Writer))
	e.must("install", e.Ports.Engine.Install(e.ctx, e.Cluster.Of(name), port.Source{}, "install "+name))
	e.until(name, "is installed", func(s port.Status) bool { return s.Installed })
	e.grant(name)
	e.must("start", e.Ports.Engine.Start(e.ctx, e.Cluster.Of(name)))
	e.writes(name, e.epoch)
}

// readers creates readers of a writer.
func (e *suite) readers(writer string, names ...string) {
	e.t.Helper()
	for _, name := range names { // in parallel
		_, err := e.Ports.Instances.Ensure(e.ctx, e.Cluster, e.instance(name, port.Reader))
		e.must("make "+name, err)
	}
	for _, name := range names {
		e.up(e.instance(name, port.Reader))
		e.must("install", e.Ports.Engine.Install(e.ctx, e.Cluster.Of(name), port.Source{From: writer}, "install "+name))
	}
	for _, name := range names {
		e.until(name, "is installed", func(s port.Status) bool { return s.Installed })
		e.must("start", e.Ports.Engine.Start(e.ctx, e.Cluster.Of(name)))
	}
	for _, name := range names {
		e.streams(name, writer)
	}
}

// revive restarts what Kill has ended.
func (e *suite) revive(name string, kind port.Type) {
	e.t.Helper()
	e.up(e.instance(name, kind))
	e.updateMember(name) // it may have got another address
	e.await("start of "+name, func() error { return e.Ports.Engine.Start(e.ctx, e.Cluster.Of(name)) })
}

func (e *suite) insert(name, row string) {
	e.t.Helper()
	if e.Insert != nil {
		e.must("insert "+row, e.Insert(e.Cluster.Of(name), row))
	}
}

// have waits until an instance has exactly these rows.
func (e *suite) have(id port.Ref, rows ...string) {
	e.t.Helper()
	if e.Rows == nil {
		return
	}
	e.await(fmt.Sprintf("rows %v on %s", rows, id), func() error {
		got, err := e.Rows(id)
		if err == nil && !slices.Equal(got, rows) {
			err = fmt.Errorf("%v", got)
		}
		return err
	})
}
