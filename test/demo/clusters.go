package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	blue = "blue"
)

// ClusterFacts are the observations of the container cluster.
type ClusterFacts struct {
	Nodes             []string       // as they were created
	SignedCount       int            // clusters in the answer to the signed call
	SignedState       string         // of the first one there
	ForgedStatus      int            // HTTP status of a call with the signature of another call
	NakedStatus       int            // HTTP status of /v1 without a token, once tokens exist
	Path              []string       // from → to, by the history
	Finding, Resource string         // of the drift report: type and resource
	Killed            string         // name of the VM
	Before, After     map[string]int // process ids of VMs by name, before and after the recovery
	Crashed           string         // state when pawl was killed
	Outlived          map[string]int // process ids after the crash and the scaling
	Open              []string       // journal rows that remain after the deletion
	Leaks             int
	Left              []string // files and processes after the deletion
}

// ClusterActs returns the acts of the second part: a container cluster whose VMs are
// processes of this machine.
func (d *Demo) ClusterActs() []Act {
	acts := []Act{
		{Name: "ClusterCreate", Title: "A container cluster: one control node and two workers", do: d.createCluster},
		{Name: "ClusterList", Title: "Listed by pawl, by curl, and by a signed call", do: d.listCluster},
		{Name: "ClusterKill", Title: "A VM is killed with -9: Alert, drift, Recovering, Running", do: d.killVM},
		{Name: "ClusterCrash", Title: "Scale to four workers, and kill -9 pawl in the middle", do: d.crashScaling},
		{Name: "ClusterDelete", Title: "Delete: VMs, network and data go, and the collector finds nothing", do: d.deleteCluster},
	}
	if d.options.Keep {
		acts[len(acts)-1] = Act{Name: "ClusterKeep", Title: "The container cluster keeps running", do: d.keepCluster}
	}
	for i := range acts {
		acts[i].out = d.print
	}
	return acts
}

// AllActs returns the acts of both parts. The last act lists what is kept.
func (d *Demo) AllActs() []Act {
	first := d.Acts()
	if !d.options.Keep {
		return append(first, d.ClusterActs()...)
	}
	last := len(first) - 1
	return append(append(slices.Clone(first[:last]), d.ClusterActs()...), first[last])
}

func (d *Demo) createCluster(ctx context.Context) error {
	return steps(
		func() error { return d.pawl(ctx, 0, "cluster", "create", blue, "--size", "2", "--wait", "2m") },
		func() error { return d.pawl(ctx, 0, "cluster", "nodes", blue) },
		func() error {
			c, err := d.cluster(ctx)
			if err != nil {
				return err
			}
			nodes, err := d.nodes(ctx)
			for _, n := range nodes {
				d.facts.Cluster.Nodes = append(d.facts.Cluster.Nodes, n.Role+" "+n.Ready)
			}
			d.clusterID = c.ID
			return err
		},
	)
}

// listCluster also creates the first credentials: from then on calls are authenticated.
func (d *Demo) listCluster(ctx context.Context) error {
	var token struct{ Token string }
	var key struct{ ID, Secret string }
	at := "http://" + d.server
	return steps(
		func() error { return d.pawl(ctx, 0, "cluster", "list") },
		func() error {
			_, err := d.curl(ctx, at+"/v1/clusters?name="+blue, http.StatusOK)
			return err
		},
		func() error { return d.runAndSave(ctx, &token, "token.json", "token", "create", "--name", "demo") },
		func() error {
			d.token = token.Token
			d.print("$ export PAWL_TOKEN=$(sed -n 's/.*\"token\": \"\\(.*\\)\".*/\\1/p' token.json)")
			status, _, err := d.fetch(ctx, at+"/v1/clusters", "")
			d.facts.Cluster.NakedStatus = status
			return err
		},
		func() error { return d.runAndSave(ctx, &key, "key.json", "key", "create", "--name", "demo") },
		func() error {
			list := map[string]string{"command": "listContainerCluster", "apikey": key.ID, "name": blue, "response": "json"}
			body, err := d.curl(ctx, at+"/client/api?"+signed(key.Secret, list), http.StatusOK)
			if err != nil {
				return err
			}
			var answer struct {
				List struct {
					Count int
					Items []struct{ State string } `json:"containercluster"`
				} `json:"listcontainerclusterresponse"`
			}
			if err := json.Unmarshal(body, &answer); err != nil || len(answer.List.Items) == 0 {
				return fmt.Errorf("the signed call lists nothing: %w: %s", err, body)
			}
			d.facts.Cluster.SignedCount, d.facts.Cluster.SignedState = answer.List.Count, answer.List.Items[0].State
			query := strings.Replace(signed(key.Secret, list), "name="+blue, "name=green", 1)
			d.facts.Cluster.ForgedStatus, _, err = d.fetch(ctx, at+"/client/api?"+query, "")
			return err
		},
	)
}

// killVM kills the newest worker and watches until it is back.
func (d *Demo) killVM(ctx context.Context) error {
	nodes, err := d.nodes(ctx)
	if err != nil || len(nodes) == 0 {
		return fmt.Errorf("%d nodes: %w", len(nodes), err)
	}
	victim := nodes[len(nodes)-1]
	d.facts.Cluster.Killed = victim.Name
	if d.facts.Cluster.Before, err = d.processes(ctx); err != nil {
		return err
	}
	watched := func() error {
		return steps(
			func() error {
				d.print("$ kill -9 $(pgrep -f %s)   # the VM %s", victim.ID, victim.Name)
				return syscall.Kill(d.facts.Cluster.Before[victim.Name], syscall.SIGKILL)
			},
			func() error { // the act reads the report and not the state: on a busy machine the repair may be faster
				return d.until(ctx, within, "the drift report lists the VM", func(ctx context.Context) (bool, error) {
					var report struct {
						Findings []struct{ Type, Resource string }
					}
					err := d.read(ctx, &report, "cluster", "drift", blue)
					if err != nil || len(report.Findings) == 0 {
						return false, err
					}
					d.facts.Cluster.Finding, d.facts.Cluster.Resource = report.Findings[0].Type, report.Findings[0].Resource
					return true, nil
				})
			},
			func() error { return d.pawl(ctx, 0, "cluster", "drift", blue) },
			func() error { // the act reads the history and not the state: a busy machine may miss the state
				return d.until(ctx, within, "the cluster was in Alert", func(ctx context.Context) (bool, error) {
					path, err := d.path(ctx)
					return slices.Contains(path, "Running → Alert"), err
				})
			},
			func() error { return d.clusterReaches(ctx, "Running") },
		)
	}
	return steps(
		func() error { return d.runBeside(ctx, watched, "cluster", "watch", blue) },
		func() error { return d.pawl(ctx, 0, "cluster", "history", blue) },
		func() (err error) {
			d.facts.Cluster.After, err = d.processes(ctx)
			return err
		},
		func() (err error) {
			d.facts.Cluster.Path, err = d.path(ctx)
			return err
		},
	)
}

// crashScaling kills pawl when new VMs are in its journal and the scaling is not finished.
func (d *Demo) crashScaling(ctx context.Context) error {
	return steps(
		func() error { return d.pawl(ctx, 0, "cluster", "scale", blue, "--size", "4") },
		func() error {
			return d.until(ctx, within, "the scaling has begun", func(ctx context.Context) (bool, error) {
				c, err := d.cluster(ctx)
				d.facts.Cluster.Crashed = c.State
				return c.State == "Scaling", err
			})
		},
		d.killServer,
		func() error { return d.startServer(ctx) },
		func() error {
			return d.runBeside(ctx, func() error { return d.clusterReaches(ctx, "Running") }, "cluster", "watch", blue)
		},
		func() error { return d.pawl(ctx, 0, "cluster", "list") },
		func() error { return d.pawl(ctx, 0, "cluster", "resources", blue) },
		func() (err error) {
			d.facts.Cluster.Outlived, err = d.processes(ctx)
			return err
		},
	)
}

func (d *Demo) deleteCluster(ctx context.Context) error {
	return steps(
		func() error { return d.pawl(ctx, 0, "cluster", "delete", blue, "--wait", "1m") },
		func() error { return d.pawl(ctx, 0, "cluster", "resources", d.clusterID) },
		func() error { return d.pawl(ctx, 0, "cluster", "leaks") },
		func() error { return d.pawl(ctx, 0, "cluster", "list") },
		func() error {
			var journal struct {
				Items []struct{ Name, Phase string }
			}
			if err := d.read(ctx, &journal, "cluster", "resources", d.clusterID); err != nil {
				return err
			}
			for _, row := range journal.Items {
				if row.Phase != "gone" {
					d.facts.Cluster.Open = append(d.facts.Cluster.Open, row.Name+" "+row.Phase)
				}
			}
			var leaks struct{ Items []any }
			err := d.read(ctx, &leaks, "cluster", "leaks")
			d.facts.Cluster.Leaks = len(leaks.Items)
			return err
		},
		func() error {
			d.print("$ ls vms/vms vms/networks; pgrep -f %s", filepath.Join(d.dir, "vms"))
			d.facts.Cluster.Left = d.leftovers(ctx)
			if n := len(d.facts.Cluster.Left); n > 0 {
				return fmt.Errorf("%d resources are left: %s", n, strings.Join(d.facts.Cluster.Left, ", "))
			}
			d.print("no process and no folder is left")
			return nil
		},
	)
}

func (d *Demo) keepCluster(context.Context) error {
	d.kept = true
	d.print(`It is a cluster of the same server, which wants a token now:

  export PAWL_SERVER=http://%s PAWL_TOKEN=%s
  %s cluster describe %s
  kill -9 $(pgrep -f $(%s cluster nodes %s | awk '/worker1/ {print $6}'))
  %s cluster watch %s

To end it, before the server:

  %s cluster delete %s --wait`,
		d.server, d.token, d.options.Pawl, blue, d.options.Pawl, blue, d.options.Pawl, blue, d.options.Pawl, blue)
	return nil
}

// container is the part of a cluster that the demo reads.
type container struct{ ID, State string }

func (d *Demo) cluster(ctx context.Context) (c container, err error) {
	err = d.read(ctx, &c, "cluster", "get", blue)
	return c, err
}

func (d *Demo) clusterReaches(ctx context.Context, state string) error {
	return d.until(ctx, within, "the cluster is "+state, func(ctx context.Context) (bool, error) {
		c, err := d.cluster(ctx)
		return c.State == state, err
	})
}

// vm is the part of a node that the demo reads.
type vm struct{ Name, ID, Role, Ready string }

func (d *Demo) nodes(ctx context.Context) ([]vm, error) {
	var page struct{ Items []vm }
	err := d.read(ctx, &page, "cluster", "nodes", blue)
	return page.Items, err
}

// path returns the state transitions of the cluster.
func (d *Demo) path(ctx context.Context) (path []string, err error) {
	var page struct {
		Items []struct{ From, State string }
	}
	err = d.read(ctx, &page, "cluster", "history", blue)
	for _, e := range page.Items {
		if e.From != "" && e.From != e.State {
			path = append(path, e.From+" → "+e.State)
		}
	}
	return path, err
}

// processes returns the process ids of the cluster's running VMs by name.
func (d *Demo) processes(ctx context.Context) (map[string]int, error) {
	nodes, err := d.nodes(ctx)
	pids := map[string]int{}
	for _, n := range nodes {
		if pid := pidOf(filepath.Join(d.dir, "vms", "vms", n.ID)); lives(ctx, pid, n.ID) {
			pids[n.Name] = pid
		}
	}
	return pids, err
}

// pidOf returns the process id of a VM, 0 if there is none.
func pidOf(dir string) int {
	var p struct{ PID int }
	if data, err := os.ReadFile(filepath.Join(dir, "process.json")); err != nil || json.Unmarshal(data, &p) != nil {
		return 0
	}
	return p.PID
}

// lives reports whether a process runs and its command line names the VM: a process id
// alone proves nothing.
func lives(ctx context.Context, pid int, id string) bool {
	if pid == 0 {
		return false
	}
	said, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(said), id)
}

// leftovers returns the remaining folders and processes of VMs and networks.
func (d *Demo) leftovers(ctx context.Context) (left []string) {
	for _, kind := range []string{"vms", "networks"} {
		found, _ := filepath.Glob(filepath.Join(d.dir, "vms", kind, "*")) // the pattern is valid
		left = append(left, found...)
	}
	said, err := exec.CommandContext(ctx, "ps", "-eww", "-o", "pid=,args=").Output()
	if err != nil {
		return append(left, err.Error())
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, " node ") && strings.Contains(line, filepath.Join(d.dir, "vms")) {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return left
}

// endVMs kills the processes that a failed act has left.
func (d *Demo) endVMs() {
	dirs, _ := filepath.Glob(filepath.Join(d.dir, "vms", "vms", "*")) // the pattern is valid
	for _, dir := range dirs {
		if pid := pidOf(dir); lives(context.Background(), pid, filepath.Base(dir)) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have just ended
		}
	}
}

// runBeside shows a command that does not end by itself while do runs.
func (d *Demo) runBeside(ctx context.Context, do func() error, args ...string) error {
	d.print("$ pawl %s &", quoted(args))
	cmd := d.command(ctx, d.options.Pawl, args...)
	cmd.Stdout, cmd.Stderr = d.options.Out, d.options.Out
	if err := cmd.Start(); err != nil {
		return err
	}
	err := do()
	time.Sleep(2 * watchEvery) // let it print the rest
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return err
}

const watchEvery = time.Second // of pawl cluster watch

// runAndSave runs a command and writes its output into a file of the state folder, because
// it contains a secret.
func (d *Demo) runAndSave(ctx context.Context, into any, file string, args ...string) error {
	d.print("$ pawl %s -o json > %s", quoted(args), file)
	var out bytes.Buffer
	cmd := d.command(ctx, d.options.Pawl, append(slices.Clone(args), "-o", "json")...)
	cmd.Stdout, cmd.Stderr = &out, d.options.Out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pawl %s: %w", quoted(args), err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, file), out.Bytes(), 0o600); err != nil {
		return err
	}
	return json.Unmarshal(out.Bytes(), into)
}

// curl fetches an address as curl would, and shows the answer as jq does.
func (d *Demo) curl(ctx context.Context, url string, want int) ([]byte, error) {
	d.print("$ curl -s '%s' | jq", url)
	status, body, err := d.fetch(ctx, url, "")
	if err != nil {
		return nil, err
	}
	var shown bytes.Buffer
	if json.Indent(&shown, body, "", "  ") == nil {
		d.print("%s", strings.TrimSpace(shown.String()))
	}
	if status != want {
		return nil, fmt.Errorf("%s: status %d, not %d: %s", url, status, want, body)
	}
	return body, nil
}

func (d *Demo) fetch(ctx context.Context, url, token string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := once.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
