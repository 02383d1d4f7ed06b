package sqlstore_test

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
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/store/sqlstore"
)

const shopPlace = "PAWL_SHOP_PLACE"

// A test binary that is started as a shop is one instead of its tests.
func init() {
	if place := os.Getenv(shopPlace); place != "" {
		if err := keepShop(place); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// sizes a cluster is brought to, one after the other.
var shopSizes = []int{2, 6, 1, 5, 3}

// keepShop creates a cluster, scales it up and down and deletes it, or goes on where a shop before it has died.
func keepShop(place string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	store, err := sqlstore.OpenSQLite(ctx, sqlstore.Options{Path: filepath.Join(place, "pawl.db"), MasterKey: masterKey})
	if err != nil {
		return err
	}
	var s *shop
	ready := make(chan struct{})
	o := shopCloud()
	o.File = filepath.Join(place, "cloud")
	o.Home = func(ctx context.Context, token string, h cluster.Hello) (cluster.HelloAnswer, error) {
		<-ready
		return s.service.Hello(ctx, token, h)
	}
	cloud, err := sim.New(o)
	if err != nil {
		return err
	}
	books := store.Clusters()
	if s, err = openShop(shopOptions{name: strconv.Itoa(os.Getpid()), books: books, runs: store, locks: store.Locks(), provider: cloud}); err != nil {
		return err
	}
	close(ready)
	go func() { _ = cloud.Serve(ctx) }()
	uuid := ""
	for i, size := range shopSizes {
		id := fmt.Sprintf("order-%d", i)
		job, err := order(ctx, books, id, func() error {
			if i == 0 {
				_, _, err := s.service.Create(ctx, shopper, service.CreateRequest{Name: "blue", Zone: "zone-1", Offering: "small", Size: size, JobID: id})
				return err
			}
			_, _, err := s.service.Change(ctx, shopper, uuid, service.ChangeRequest{Kind: cluster.AskScale, Size: size, JobID: id})
			return err
		})
		if err != nil {
			return err
		}
		if uuid = job.Cluster; job.Status != cluster.JobDone {
			return fmt.Errorf("%s: %s %s", id, job.Code, job.Text)
		}
	}
	return os.WriteFile(filepath.Join(place, "uuid"), []byte(uuid), 0o600)
}

// TestKillClusters kills a server with SQLite at random moments, with kill -9,
// while it creates a cluster and scales it up and down. After each death all
// that stands in the cloud stands in the books, and in the end the cluster is
// what was asked for.
func TestKillClusters(t *testing.T) {
	kills := 20
	if n, err := strconv.Atoi(os.Getenv("PAWL_TEST_KILLS")); err == nil {
		kills = max(1, n/10) // a death here takes as long as ten of those of TestKillNine
	}
	for round := 0; kills > 0; round++ {
		place := t.TempDir()
		deaths := 0
		for dead := true; dead; {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), shopPlace+"="+place)
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
			shopInspect(t, place, func(books cluster.Ledger, cloud *sim.Cloud) { known(t, books, cloud) })
		}
		uuid, err := os.ReadFile(filepath.Join(place, "uuid"))
		if err != nil {
			t.Fatal(err)
		}
		shopInspect(t, place, func(books cluster.Ledger, cloud *sim.Cloud) {
			stands(t, books, cloud, string(uuid), shopSizes[len(shopSizes)-1])
		})
		t.Logf("round %d: %d deaths", round, deaths)
		if deaths == 0 {
			t.Fatal("nobody died: the test shows nothing")
		}
	}
}

// shopInspect opens what a dead server has left, as it is.
func shopInspect(t *testing.T, place string, look func(books cluster.Ledger, cloud *sim.Cloud)) {
	t.Helper()
	store, err := sqlstore.OpenSQLite(t.Context(), sqlstore.Options{Path: filepath.Join(place, "pawl.db"), MasterKey: masterKey})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	raw, err := os.ReadFile(filepath.Join(place, "cloud"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "cloud") // it is written anew when it is opened
	if err := os.WriteFile(copied, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	o := shopCloud()
	o.File = copied
	cloud, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	look(store.Clusters(), cloud)
}
