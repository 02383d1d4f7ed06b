package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/test/demo/stage"
	fdbtest "github.com/pawl-dev/pawl/test/foundationdb"
)

// operate starts the operator, whose waits are short, and shows how.
func (d *Demo) operate() (err error) {
	d.operator, err = d.environment.StartOperator(d.Plane.Kubeconfig(), namespace, fdbtest.QuickFlags...)
	if err == nil {
		d.Print("$ pawl operator --operators foundationdb --fdb-tools TOOLS --fdb-look 2s … &   # pid %d", d.operator.PID())
	}
	return err
}

// file is the path of a file of the demo.
func (d *Demo) file(name string) string { return filepath.Join(d.dir, name) }

// edited writes a manifest with a merge patch over it to a file, and returns its path.
func (d *Demo) edited(ctx context.Context, to, manifest string, patch ...string) (string, error) {
	args := append([]string{"patch", "--local", "-o", "yaml", "--type", "merge", "-f", manifest}, patch...)
	path := d.file(to)
	d.Print("$ kubectl %s > %s", stage.Quoted(args), path)
	text, err := d.Quietly(ctx, args...)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text+"\n"), 0o600)
}

// needing shows a verb of kubectl that ends with 4: something needs somebody.
func (d *Demo) needing(ctx context.Context, args ...string) error {
	err := d.Kubectl(ctx, args...)
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() == 4 {
		return nil
	}
	if err == nil {
		err = errors.New("nothing needs somebody")
	}
	return err
}

func (d *Demo) cluster(ctx context.Context) (*v1beta2.FoundationDBCluster, error) {
	c := &v1beta2.FoundationDBCluster{}
	err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, c)
	if c.Status.ConnectionString != "" {
		d.connection = c.Status.ConnectionString
	}
	return c, err
}

// until polls the cluster.
func (d *Demo) until(ctx context.Context, what string, holds func(*v1beta2.FoundationDBCluster) error) error {
	return d.Until(ctx, what, func(ctx context.Context) error {
		if err := d.operator.Check(); err != nil {
			return err
		}
		c, err := d.cluster(ctx)
		if err != nil {
			return err
		}
		if err := holds(c); err != nil {
			return fmt.Errorf("%w; conditions %v, plan %v", err, c.Status.Conditions, c.Status.Plan)
		}
		return nil
	})
}

// reconciled waits until the cluster is as its spec says.
func (d *Demo) reconciled(ctx context.Context) error {
	d.Print("$ kubectl wait --for=condition=Reconciled fdb/%s", name)
	return d.until(ctx, "it is reconciled", func(c *v1beta2.FoundationDBCluster) error {
		ready := meta.FindStatusCondition(c.Status.Conditions, clusters.TypeReconciled)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != c.Generation || c.Status.Generations.Reconciled != c.Generation {
			return fmt.Errorf("generation %d of %d is reconciled", c.Status.Generations.Reconciled, c.Generation)
		}
		return nil
	})
}

// database asks the database itself.
func (d *Demo) database(ask func(*sim.Cluster)) error { return d.environment.Do(d.connection, ask) }

// tell shows the lines of the database's own transcript that match, since the last call, and returns them.
func (d *Demo) tell(match *regexp.Regexp) (lines []string, err error) {
	err = d.database(func(c *sim.Cluster) {
		all := c.Transcript()
		for _, line := range all[min(d.told, len(all)):] {
			if match.MatchString(line) {
				lines = append(lines, line)
			}
		}
		d.told = len(all)
	})
	if len(lines) > 0 {
		d.Print("# the database: %s", strings.Join(lines, "\n# the database: "))
	}
	return lines, err
}

// skip has tell begin here.
func (d *Demo) skip() error {
	return d.database(func(c *sim.Cluster) { d.told = len(c.Transcript()) })
}

// victim is a storage group with its pod: the last one.
func (d *Demo) victim(ctx context.Context) (id string, pod *corev1.Pod, err error) {
	c, err := d.cluster(ctx)
	if err != nil {
		return "", nil, err
	}
	var found []string
	for _, g := range c.Status.ProcessGroups {
		if g.ProcessClass == v1beta2.ProcessClass(fdb.ClassStorage) {
			found = append(found, string(g.ProcessGroupID))
		}
	}
	if len(found) == 0 {
		return "", nil, fmt.Errorf("%s has no storage group", name)
	}
	id, pod = slices.Max(found), &corev1.Pod{}
	return id, pod, d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-" + id}, pod)
}

// cut takes the network of a pod's server away in the model, which does not see that a process is stopped.
func (d *Demo) cut(ip string) error {
	started := regexp.MustCompile(`(\S+) starts: .* at ` + regexp.QuoteMeta(ip) + `:`)
	server := ""
	err := d.database(func(c *sim.Cluster) {
		for _, line := range c.Transcript() {
			if m := started.FindStringSubmatch(line); m != nil {
				server = m[1]
			}
		}
		c.Cut(server, true)
	})
	if err == nil && server == "" {
		err = fmt.Errorf("the database knows no server at %s", ip)
	}
	return err
}

// table returns how many rows the table has.
func (d *Demo) table() (n int, err error) {
	asked := d.database(func(c *sim.Cluster) {
		var found fdb.Values
		found, err = c.Transaction().GetRange(fdb.PrefixRange("table/"), 0)
		n = len(found)
	})
	if err == nil {
		err = asked
	}
	return n, err
}

// write changes the database, as a client does.
func (d *Demo) write(writes ...fdb.Write) (err error) {
	asked := d.database(func(c *sim.Cluster) {
		t := c.Transaction()
		for _, w := range writes {
			t.Write(w)
		}
		err = t.Commit()
	})
	if err == nil {
		err = asked
	}
	return err
}
