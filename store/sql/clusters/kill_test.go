package clusters_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/provider/sim"

	"github.com/pawl-dev/pawl/store/sql"
)

const clusterChildEnv = "PAWL_SHOP_PLACE"

// A test binary with this variable is a server instead of running its tests.
func init() {
	if dir := os.Getenv(clusterChildEnv); dir != "" {
		if err := runClusterChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// childSizes are the sizes to which the child scales its cluster, in this order.
var childSizes = []int{2, 6, 1, 5, 3}

// runClusterChild creates a cluster and scales it up and down. After the death of an
// earlier child it continues from the stored state.
func runClusterChild(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	store, err := sql.OpenSQLite(ctx, sql.Options{Path: filepath.Join(dir, "pawl.db"), MasterKey: masterKey})
	if err != nil {
		return err
	}
	var s *fixture
	ready := make(chan struct{})
	o := cloudOptions()
	o.File = filepath.Join(dir, "cloud")
	o.Home = func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
		<-ready
		return s.service.Heartbeat(ctx, token, h)
	}
	cloud, err := sim.New(o)
	if err != nil {
		return err
	}
	records := store.Clusters()
	if s, err = newFixture(fixtureOptions{name: strconv.Itoa(os.Getpid()), records: records, runs: store, locks: store.Locks(), provider: cloud}); err != nil {
		return err
	}
	close(ready)
	go func() { _ = cloud.Serve(ctx) }()
	uuid := ""
	for i, size := range childSizes {
		id := fmt.Sprintf("order-%d", i)
		job, err := waitForJob(ctx, records, id, func() error {
			if i == 0 {
				_, _, err := s.service.Create(ctx, testCaller, api.CreateRequest{Name: "blue", Zone: "zone-1", Offering: "small", Size: size, JobID: id})
				return err
			}
			_, _, err := s.service.Change(ctx, testCaller, uuid, api.ChangeRequest{Kind: cluster.RequestScale, Size: size, JobID: id})
			return err
		})
		if err != nil {
			return err
		}
		if uuid = job.Cluster; job.Status != cluster.JobDone {
			return fmt.Errorf("%s: %s %s", id, job.Code, job.Text)
		}
	}
	return os.WriteFile(filepath.Join(dir, "uuid"), []byte(uuid), 0o600)
}

// TestKillClusters kills a server with SQLite at random moments, with kill -9, while it
// creates a cluster and scales it up and down. After each death, every resource in the
// cloud is recorded, and in the end the cluster has the requested size.
func TestKillClusters(t *testing.T) {
	kills := 20
	if n, err := strconv.Atoi(os.Getenv("PAWL_TEST_KILLS")); err == nil {
		kills = max(1, n/10) // a death here takes as long as ten in TestKillNine
	}
	for round := 0; kills > 0; round++ {
		dir := t.TempDir()
		deaths := 0
		for dead := true; dead; {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), clusterChildEnv+"="+dir)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if deaths < 20 && kills > 0 {
				time.AfterFunc(time.Duration(100+rand.IntN(900))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			}
			err := cmd.Wait()
			if dead = err != nil; !dead {
				break
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
				t.Fatalf("after %d deaths the server ended by itself: %v\n%s", deaths, err, stderr.String())
			}
			deaths++
			kills--
			inspectClusters(t, dir, func(records cluster.Store, cloud *sim.Cloud) { checkRecorded(t, records, cloud) })
		}
		uuid, err := os.ReadFile(filepath.Join(dir, "uuid"))
		if err != nil {
			t.Fatal(err)
		}
		inspectClusters(t, dir, func(records cluster.Store, cloud *sim.Cloud) {
			checkRunning(t, records, cloud, string(uuid), childSizes[len(childSizes)-1])
		})
		t.Logf("round %d: %d deaths", round, deaths)
		if deaths == 0 {
			t.Fatal("no child died: the test proves nothing")
		}
	}
}

// inspectClusters opens the files of a dead server without changing them.
func inspectClusters(t *testing.T, dir string, delay func(records cluster.Store, cloud *sim.Cloud)) {
	t.Helper()
	store, err := sql.OpenSQLite(t.Context(), sql.Options{Path: filepath.Join(dir, "pawl.db"), MasterKey: masterKey})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	raw, err := os.ReadFile(filepath.Join(dir, "cloud"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "cloud") // opening it rewrites it
	if err := os.WriteFile(copied, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	o := cloudOptions()
	o.File = copied
	cloud, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	delay(store.Clusters(), cloud)
}
