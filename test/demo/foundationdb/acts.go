package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/test/demo/stage"
)

const (
	writer = "127.0.0.1:9999" // the client that writes; it has the libraries of both versions
	old    = "127.0.0.1:9998" // the client that has only that of the first

	example = "examples/foundationdb/cluster.yaml"
	twelve  = "test/demo/foundationdb/twelve.yaml"
	account = `{"accounts": {"seaweedfs@seaweedfs:8333": {"secret": "tot4llys3cure"}}}`
)

func (d *Demo) create(ctx context.Context) error {
	credentials := d.file("credentials")
	if err := os.WriteFile(credentials, []byte(account), 0o600); err != nil {
		return err
	}
	d.environment.Env = append(d.environment.Env, "FDB_BLOB_CREDENTIALS="+credentials)
	return stage.Steps(
		d.operate,
		func() error { return d.Kubectl(ctx, "apply", "-f", "examples/foundationdb/access.yaml") },
		func() error {
			file, err := d.edited(ctx, "cluster.yaml", example, "--patch-file", twelve)
			if err != nil {
				return err
			}
			return d.Kubectl(ctx, "apply", "-f", file)
		},
		func() error { return d.reconciled(ctx) },
		func() error { return d.Kubectl(ctx, "get", "fdb", name, "-o", "wide") },
		func() error {
			versions := make([]fdb.Version, 2)
			for i, text := range []string{before, after} {
				var err error
				if versions[i], err = fdb.ParseVersion(text); err != nil {
					return err
				}
			}
			return d.database(func(c *sim.Cluster) {
				c.Connect(sim.Client{Address: writer, LogGroup: "shop", Versions: versions, Writes: 20 * time.Millisecond})
			})
		},
		func() error {
			return d.Until(ctx, "a key is acknowledged", func(context.Context) error {
				w, err := d.written()
				if err == nil && w.Acknowledged == 0 {
					err = errors.New("none yet")
				}
				return err
			})
		},
		func() error { d.Print("# a client writes fifty keys a second"); return nil },
	)
}

// written is what has become of the client's writes.
func (d *Demo) written() (w sim.Written, err error) {
	err = d.database(func(c *sim.Cluster) { w = c.Written(writer) })
	return w, err
}

func (d *Demo) plan(ctx context.Context) error {
	file, err := d.edited(ctx, "upgrade.yaml", d.file("cluster.yaml"), "-p", `{"spec":{"version":"`+after+`"}}`)
	if err != nil {
		return err
	}
	err = d.Until(ctx, "the database is up for long enough to be restarted", func(ctx context.Context) error {
		text, err := d.Quietly(ctx, "pawl", "fdb", "plan", "-f", file)
		if err == nil && !strings.Contains(text, "restart the servers of") {
			err = errors.New(text)
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.Kubectl(ctx, "pawl", "fdb", "plan", "-f", file)
}

// hang stops the processes of a storage pod, and has a seventh storage group made beside it.
func (d *Demo) hang(ctx context.Context) error {
	id, pod, err := d.victim(ctx)
	if err != nil {
		return err
	}
	return stage.Steps(
		func() error {
			d.Print("$ kill -STOP %s   # all processes of pod %s", d.pids(pod.Name), pod.Name)
			return errors.Join(d.environment.Kubelet.Signal(namespace, pod.Name, "", syscall.SIGSTOP), d.cut(pod.Status.PodIP))
		},
		func() error {
			return d.Kubectl(ctx, "patch", "fdb", name, "--type", "merge", "-p", `{"spec":{"processCounts":{"storage":7}}}`)
		},
		func() error {
			return d.until(ctx, "a seventh storage server serves, and the one that hangs is missed", func(c *v1beta2.FoundationDBCluster) error {
				serving, missed := 0, false
				for _, g := range c.Status.ProcessGroups {
					switch lacks := g.ProcessGroupConditions; {
					case g.ProcessClass != v1beta2.ProcessClass(fdb.ClassStorage):
					case string(g.ProcessGroupID) == id:
						missed = slices.ContainsFunc(lacks, func(p v1beta2.ProcessGroupCondition) bool { return p.Type == v1beta2.MissingProcesses })
					case len(lacks) == 1 && lacks[0].Type == v1beta2.ProcessGroupConditionReady:
						serving++
					}
				}
				if serving < 6 || !missed {
					return fmt.Errorf("%d other storage groups serve, missed %t", serving, missed)
				}
				return nil
			})
		},
		func() error { return d.Kubectl(ctx, "get", "fdb", name, "-o", "wide") },
		func() error { return d.Kubectl(ctx, "pawl", "fdb", "explain", id, "-c", name) },
		func() error { return d.needing(ctx, "pawl", "fdb", "analyze", name) },
	)
}

// pids are the first processes of a pod's containers.
func (d *Demo) pids(pod string) string {
	pids := slices.Sorted(maps.Values(d.environment.Kubelet.PIDs(namespace, pod)))
	return strings.Trim(fmt.Sprint(pids), "[]")
}

// kill has the group replaced that hangs, and kills the operator as soon as the group is excluded.
func (d *Demo) kill(ctx context.Context) error {
	id, _, err := d.hanging(ctx)
	if err != nil {
		return err
	}
	group := func(c *v1beta2.FoundationDBCluster) *v1beta2.ProcessGroupStatus {
		at := slices.IndexFunc(c.Status.ProcessGroups, func(g v1beta2.ProcessGroupStatus) bool { return string(g.ProcessGroupID) == id })
		if at < 0 {
			return nil
		}
		return &c.Status.ProcessGroups[at]
	}
	return stage.Steps(
		d.skip,
		func() error {
			return d.Kubectl(ctx, "pawl", "fdb", "remove", "process-groups", "-c", name, id, "-y")
		},
		func() error {
			return d.Until(ctx, id+" is excluded", func(context.Context) error {
				var excluded []string
				if err := d.database(func(c *sim.Cluster) { excluded = c.Exclusions() }); err != nil {
					return err
				}
				if len(excluded) == 0 {
					return errors.New("nothing is excluded")
				}
				return nil
			})
		},
		func() error {
			d.Print("$ kill -9 %d   # the operator", d.operator.PID())
			if err := d.operator.Kill(); err != nil {
				return err
			}
			c, err := d.cluster(ctx)
			if err == nil && group(c) == nil {
				err = fmt.Errorf("%s was removed before the operator was killed", id)
			}
			if err == nil {
				_, err = d.tell(exclusions)
			}
			return err
		},
		d.operate,
		func() error {
			return d.until(ctx, id+" is removed", func(c *v1beta2.FoundationDBCluster) error {
				if group(c) != nil {
					return fmt.Errorf("%s is there", id)
				}
				return nil
			})
		},
		func() error { return d.reconciled(ctx) },
		func() error {
			return d.Kubectl(ctx, "get", "events", "--field-selector", "involvedObject.name="+name+",type=Normal", "--sort-by=.metadata.creationTimestamp",
				"-o", "custom-columns=REASON:.reason,MESSAGE:.message")
		},
		func() error {
			lines, err := d.tell(exclusions)
			d.facts.Excluded = count(lines, " excluded: ")
			return err
		},
	)
}

// exclusions are the lines about them in the database's own transcript.
var exclusions = regexp.MustCompile(` (excluded|included): | is erased`)

func count(lines []string, what string) (n int) {
	for _, line := range lines {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

// hanging is the group whose processes are missing.
func (d *Demo) hanging(ctx context.Context) (id string, c *v1beta2.FoundationDBCluster, err error) {
	if c, err = d.cluster(ctx); err != nil {
		return "", nil, err
	}
	for _, g := range c.Status.ProcessGroups {
		for _, p := range g.ProcessGroupConditions {
			if p.Type == v1beta2.MissingProcesses {
				return string(g.ProcessGroupID), c, nil
			}
		}
	}
	return "", nil, errors.New("no group lacks its processes")
}

func (d *Demo) upgrade(ctx context.Context) error {
	version, err := fdb.ParseVersion(before)
	if err != nil {
		return err
	}
	return stage.Steps(
		d.skip,
		func() error {
			return d.database(func(c *sim.Cluster) {
				c.Connect(sim.Client{Address: old, LogGroup: "reports", Versions: []fdb.Version{version}})
			})
		},
		func() error {
			d.Print("# a client at %s, log group reports, has only the library of %s", old, before)
			return d.Kubectl(ctx, "patch", "fdb", name, "--type", "merge", "-p", `{"spec":{"version":"`+after+`"}}`)
		},
		func() error {
			return d.until(ctx, "the upgrade is blocked", func(c *v1beta2.FoundationDBCluster) error {
				if !meta.IsStatusConditionTrue(c.Status.Conditions, clusters.TypeUpgradeBlocked) {
					return errors.New("it is not")
				}
				return nil
			})
		},
		func() error {
			return d.Kubectl(ctx, "get", "fdb", name, "-o", `jsonpath={range .status.conditions[?(@.type=="UpgradeBlocked")]}{.type}={.status}: {.message}{"\n"}{end}`)
		},
		func() error { return d.Kubectl(ctx, "pawl", "fdb", "plan", name) },
	)
}

func (d *Demo) release(ctx context.Context) error {
	return stage.Steps(
		func() error {
			d.Print("# the client at %s ends", old)
			return d.database(func(c *sim.Cluster) { c.Disconnect(old) })
		},
		func() error { return d.reconciled(ctx) },
		func() error { return d.Kubectl(ctx, "get", "fdb", name, "-o", "wide") },
		func() error {
			lines, err := d.tell(regexp.MustCompile(` kill: |coordinators speak`))
			d.facts.Restarts = count(lines, " kill: ")
			return err
		},
	)
}

// restore wipes a table and restores it, twice.
func (d *Demo) restore(ctx context.Context) error {
	var table []fdb.Write
	for n := range rows {
		table = append(table, fdb.Set(fmt.Sprintf("table/%04d", n), []byte("row")))
	}
	var version string
	steps := []func() error{
		func() error {
			w, err := d.written()
			d.facts.Gap = w.Gap // restores lock the database
			return err
		},
		func() error { return d.write(table...) },
		func() error {
			d.Print("# a table of %d rows is written", rows)
			return d.Kubectl(ctx, "create", "secret", "generic", "backup-credentials", "--from-file="+d.file("credentials"))
		},
		func() error {
			file, err := d.edited(ctx, "backup.yaml", "examples/foundationdb/backup.yaml", "-p", `{"spec":{"version":"`+after+`"}}`)
			if err != nil {
				return err
			}
			return d.Kubectl(ctx, "apply", "-f", file)
		},
		func() error {
			return d.Until(ctx, "the backup is restorable", func(ctx context.Context) error {
				b := &v1beta2.FoundationDBBackup{}
				if err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b); err != nil {
					return err
				}
				if b.Status.BackupDetails == nil || !b.Status.BackupDetails.Restorable {
					return fmt.Errorf("%+v %v", b.Status.BackupDetails, b.Status.Conditions)
				}
				return nil
			})
		},
		func() error { return d.Kubectl(ctx, "get", "fdbbackup", name) },
		func() (err error) {
			version, err = d.restorable()
			return err
		},
	}
	for _, restore := range []string{"first", "second"} {
		steps = append(steps,
			func() error {
				d.Print("# the table is wiped")
				return d.write(fdb.Clear(fdb.PrefixRange("table/")))
			},
			func() error {
				return d.Kubectl(ctx, "pawl", "fdb", "restore", name, "--name", restore, "--to", version, "--range", "table/ table0", "--wait=3m", "-y")
			},
			func() error {
				n, err := d.table()
				d.facts.Restored = append(d.facts.Restored, n)
				d.Print("# the table has %d rows", n)
				return err
			},
		)
	}
	return stage.Steps(append(steps, func() error { return d.Kubectl(ctx, "get", "fdbrestore") })...)
}

// restorable is the newest version that the backup can restore now.
func (d *Demo) restorable() (string, error) {
	v, err := fdb.ParseVersion(after)
	if err != nil {
		return "", err
	}
	call := fdb.ReadBackupStatus("default")
	call.ClusterFile = "fdb.cluster"
	var out string
	if err := d.database(func(c *sim.Cluster) { out = c.Call(call, v, c.Connection()).Stdout }); err != nil {
		return "", err
	}
	status, err := fdb.ParseBackupStatus([]byte(out))
	if err != nil {
		return "", err
	}
	d.Print("$ fdbbackup status --json | jq .LatestRestorablePoint.Version\n%d", int64(status.RestorableVersion))
	return fmt.Sprint(int64(status.RestorableVersion)), nil
}

func (d *Demo) keys(ctx context.Context) error {
	w, err := d.written()
	if err != nil {
		return err
	}
	if err := d.database(func(c *sim.Cluster) { d.facts.Violations = c.Violations() }); err != nil {
		return err
	}
	d.facts.Acked, d.facts.Lost, d.facts.Locked = w.Acknowledged, len(w.Missing), w.Gap
	d.Print("%d keys were acknowledged; %d of them are lost", w.Acknowledged, len(w.Missing))
	d.Print("the longest time without an answer was %s; while a restore locked the database, %s", d.facts.Gap.Round(time.Millisecond), w.Gap.Round(time.Millisecond))
	for _, v := range d.facts.Violations {
		d.Print("violated: %s", v)
	}
	if len(w.Missing) > 0 || len(d.facts.Violations) > 0 {
		return errors.New("the database was harmed")
	}
	return d.Kubectl(ctx, "get", "fdb,fdbbackup,fdbrestore")
}
