package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	kind   = "EtcdCluster"
	name   = "demo"
	within = 2 * time.Minute // the longest wait of an act
)

// Event is the part of an event that the demo reads.
type Event struct {
	Kind, Step, Code, Message, Reason string
	Seq                               int
	At                                time.Time
}

// Fault is the fault that blocks the object.
type Fault struct{ Code, Message, Remedy string }

// Run is a run of the object, with its fault.
type Run struct {
	ID    string
	Fault *Fault
}

// object is the part of the object that the demo reads.
type object struct {
	Status struct {
		State    string
		Members  int
		Run      struct{ ID, Phase, Step string }
		Observed struct {
			Health struct{ Running, Lost []string }
		}
		Fault *Fault
	}
}

func (d *Demo) object(ctx context.Context) (o object, err error) {
	err = d.read(ctx, &o, "get", kind, name)
	return o, err
}

// Set edits the manifest and shows the change.
func (d *Demo) Set(key string, value int) error {
	data, err := os.ReadFile(d.manifest)
	if err != nil {
		return err
	}
	line := regexp.MustCompile(`(?m)^(  ` + key + `: )[0-9]+`)
	if !line.Match(data) {
		return fmt.Errorf("%s has no line for %s", d.manifest, key)
	}
	d.print("$ sed -i 's/%s: [0-9]*/%s: %d/' cluster.yaml", key, key, value)
	return os.WriteFile(d.manifest, line.ReplaceAll(data, []byte("${1}"+strconv.Itoa(value))), 0o644)
}

// Apply applies the example and waits until the object reaches a state.
func (d *Demo) Apply(ctx context.Context, state string) (Run, error) {
	if err := d.pawl(ctx, 0, "apply", "-f", "cluster.yaml"); err != nil {
		return Run{}, err
	}
	if err := d.awaitState(ctx, state); err != nil {
		return Run{}, err
	}
	o, err := d.object(ctx)
	return Run{ID: o.Status.Run.ID, Fault: o.Status.Fault}, err
}

// Faulty applies an impossible spec and waits until the object reports it while it stays
// in its state.
func (d *Demo) Faulty(ctx context.Context, state, code string) error {
	if err := d.pawl(ctx, 0, "apply", "-f", "cluster.yaml"); err != nil {
		return err
	}
	return d.until(ctx, within, "the cluster is "+state+" with "+code, func(ctx context.Context) (bool, error) {
		o, err := d.object(ctx)
		return o.Status.State == state && o.Status.Fault != nil && o.Status.Fault.Code == code, err
	})
}

// ApplyAndWait applies the example and waits until the cluster matches it.
func (d *Demo) ApplyAndWait(ctx context.Context) error {
	return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml", "--wait", "1m")
}

// History is the result of a run.
func (d *Demo) History(ctx context.Context, run string) ([]Event, error) { return d.history(ctx, run) }

// CrashAt kills the server as soon as it reports that the newest run of a flow has begun a
// step, which may be over by then, and restarts it. It skips a step that had already begun
// at the previous kill: a step that begins twice counts as one that kills its process.
func (d *Demo) CrashAt(ctx context.Context, flow, step string) error {
	var run string
	if err := d.until(ctx, within, "there is a run of "+flow, func(ctx context.Context) (_ bool, err error) {
		run, err = d.newest(ctx, flow)
		return run != "", err
	}); err != nil {
		return err
	}
	hit := false
	if err := d.follow(ctx, run, func(e Event) bool {
		hit = e.At.Before(d.killed)
		return stepBegins(step)(e)
	}); err != nil {
		return fmt.Errorf("until run %s is at %s: %w", run, step, err)
	}
	if hit {
		d.print("# it was at %s when it was killed", step)
		return nil
	}
	if err := d.killServer(); err != nil {
		return err
	}
	return d.startServer(ctx)
}

// Await waits until the object is in a state and etcd has this number of voters.
func (d *Demo) Await(ctx context.Context, state string, voters int) error {
	if err := d.awaitState(ctx, state); err != nil {
		return err
	}
	return d.expect(ctx, voters)
}

// Resume resumes a run and follows it until it succeeds.
func (d *Demo) Resume(ctx context.Context, run string) error {
	return d.pawl(ctx, 0, "resume", short(run), "--wait", "1m")
}

// Delete deletes the object and waits until it is gone.
func (d *Demo) Delete(ctx context.Context) error {
	return d.pawl(ctx, 0, "delete", kind, name, "--wait", "1m")
}

// Ended waits until a run of a flow has succeeded, and returns its history.
func (d *Demo) Ended(ctx context.Context, flow string) (events []Event, err error) {
	err = d.until(ctx, within, "a run of "+flow+" has succeeded", func(ctx context.Context) (bool, error) {
		run, err := d.newest(ctx, flow)
		if err != nil || run == "" {
			return false, err
		}
		events, err = d.history(ctx, run)
		return len(events) > 0 && events[len(events)-1].Kind == "RunSucceeded", err
	})
	return events, err
}

// awaitState waits until the object is in a state.
func (d *Demo) awaitState(ctx context.Context, state string) error {
	return d.until(ctx, within, "the cluster is "+state, func(ctx context.Context) (bool, error) {
		o, err := d.object(ctx)
		return o.Status.State == state, err
	})
}

// awaitStep waits until the run of the object's state has begun a step, and returns its
// id.
func (d *Demo) awaitStep(ctx context.Context, state, step string) (run string, err error) {
	err = d.until(ctx, within, "there is a run of "+state, func(ctx context.Context) (bool, error) {
		o, err := d.object(ctx)
		run = o.Status.Run.ID
		return o.Status.State == state && run != "", err
	})
	if err == nil {
		err = d.follow(ctx, run, stepBegins(step))
	}
	return run, err
}

// stepBegins returns a matcher of a step's first event.
func stepBegins(step string) func(Event) bool {
	return func(e Event) bool { return e.Step == step && e.Kind == "StepStarted" }
}

func (d *Demo) history(ctx context.Context, run string) ([]Event, error) {
	var page struct{ Items []Event }
	err := d.read(ctx, &page, "history", run)
	return page.Items, err
}

// saveHistory stores the history of the newest run of a flow for Facts.
func (d *Demo) saveHistory(ctx context.Context, flow, run string) error {
	events, err := d.history(ctx, run)
	d.facts.Histories[flow] = events
	return err
}

// newest returns the id of the newest run of a flow, empty if there is none.
func (d *Demo) newest(ctx context.Context, flow string) (string, error) {
	var runs struct{ Items []struct{ ID string } }
	if err := d.read(ctx, &runs, "get", "--flow", flow); err != nil {
		return "", err
	}
	if len(runs.Items) == 0 {
		return "", nil
	}
	return runs.Items[0].ID, nil
}

// member is a member from etcd's list.
type member struct {
	id      uint64
	learner bool
}

// members returns etcd's own list.
func (d *Demo) members(ctx context.Context) (map[string]member, error) {
	client, err := connect(d.clients(3))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	members := map[string]member{}
	for _, m := range list.Members {
		// A member that was never started has no name; its peer URL identifies it.
		port, err := strconv.Atoi(m.PeerURLs[0][strings.LastIndexByte(m.PeerURLs[0], ':')+1:])
		if err != nil {
			return nil, err
		}
		members[fmt.Sprintf("%s-%d", name, (port-d.base)/2+1)] = member{m.ID, m.IsLearner}
	}
	return members, nil
}

// expect fails unless etcd has exactly this number of voters and no learner.
func (d *Demo) expect(ctx context.Context, voters int) error {
	members, err := d.members(ctx)
	if err != nil {
		return err
	}
	for who, m := range members {
		if m.learner {
			return fmt.Errorf("%s is a learner", who)
		}
	}
	if len(members) != voters {
		return fmt.Errorf("etcd has %d members, not %d", len(members), voters)
	}
	return nil
}

func connect(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// Kill kills a member's process with SIGKILL.
func (d *Demo) Kill(who string) error {
	file := filepath.Join("etcd", name, who, "pid")
	text, err := os.ReadFile(filepath.Join(d.dir, file))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	d.print("$ kill -9 $(cat %s)", file)
	return syscall.Kill(pid, syscall.SIGKILL)
}

// memberPatience is the timeout of a read with quorum. It is longer than etcd's own: a
// member without quorum answers with an error before, and a member on a busy machine is
// only slow.
const memberPatience = 20 * time.Second

// retryDuringElection repeats a read that an election aborts, as etcd's own client does.
// The quorum exists: it has just elected a leader. A member without quorum ends its read
// with another error.
func retryDuringElection(ask func() string) string {
	for range 20 {
		if said := ask(); !strings.Contains(said, "etcdserver: leader changed") {
			return said
		}
	}
	return ask()
}

// Ready returns the number of members that answer a read with quorum.
func (d *Demo) Ready(ctx context.Context, count int) int {
	n, _ := d.ready(ctx, count)
	return n
}

// ready is Ready with the errors of the other members.
func (d *Demo) ready(ctx context.Context, count int) (n int, said string) {
	var all sync.WaitGroup
	results := make([]string, count)
	for i := range count {
		all.Go(func() {
			results[i] = retryDuringElection(func() string { return getError(ctx, d.Client(i+1)+"/readyz", memberPatience) })
		})
	}
	all.Wait()
	var lines []string
	for i, why := range results {
		if why == "" {
			n++
			why = "ready"
		}
		lines = append(lines, fmt.Sprintf("  %s-%d: %s", name, i+1, why))
	}
	return n, strings.Join(lines, "\n")
}

// fewestReady polls ready while do runs, and returns the minimum.
func (d *Demo) fewestReady(ctx context.Context, count int, do func() error) (int, error) {
	ctx, stop := context.WithCancel(ctx)
	fewest := count
	var counting sync.WaitGroup
	counting.Go(func() {
		pause := time.NewTicker(100 * time.Millisecond)
		defer pause.Stop()
		for {
			n, said := d.ready(ctx, count)
			select {
			case <-ctx.Done():
				return // ignore an aborted count
			case <-pause.C:
				if n < fewest {
					fewest, d.facts.Worst = n, said
				}
			}
		}
	})
	err := do()
	stop()
	counting.Wait()
	return fewest, err
}
