//go:build unix

package clusters_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

// The operations of the cluster store, measured on filled stores.
//
//	go test ./store/sql/clusters -run '^$' -bench Clusters -benchtime 2s

const benchClusters, benchNodes, benchRows, benchCallers = 10_000, 10, 13, 16

func fullRecord(i int) *cluster.Change {
	c := sqltest.NewRecord(i)
	c.Nodes, c.Journal = nil, nil
	for n := range benchNodes {
		c.Nodes = append(c.Nodes, &cluster.Node{Name: fmt.Sprint("node", n), Key: fmt.Sprint("k", n), Role: cluster.Worker, Ordinal: n, VMID: fmt.Sprint("vm-", i, "-", n), HeartbeatAt: sqltest.When})
	}
	for n := range benchRows {
		c.Journal = append(c.Journal, &cluster.JournalRow{Kind: cluster.VM, Key: fmt.Sprint("k", n), Name: fmt.Sprint("node", n), Phase: cluster.Present, Origin: cluster.OriginCreated,
			ProviderID: fmt.Sprint("vm-", i, "-", n), RunID: "run", Step: "control nodes", CallID: "7b3f6a2e-9c1d-4e5f-8a7b-1c2d3e4f5a6b",
			Spec: cluster.Spec{Zone: "z1", Offering: "o1", Template: "t1", Network: "n1"}, IntentAt: sqltest.When, PresentAt: sqltest.When})
	}
	return c
}

// fillClusters commits n clusters, several at a time.
func fillClusters(b testing.TB, l *clusters.Store, n int) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range benchCallers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := l.Commit(b.Context(), fullRecord(int(i))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// eachFilledStore runs a benchmark on a filled store of each database.
func eachFilledStore(b *testing.B, run func(b *testing.B, s sql.Store)) {
	dir := b.TempDir()
	open := map[string]func() (sql.Store, error){
		"sqlite": func() (sql.Store, error) {
			return sql.Open(b.Context(), sql.Options{Path: filepath.Join(dir, "pawl.db"), MasterKey: masterKey})
		},
		"postgres": func() (sql.Store, error) {
			return sql.Open(b.Context(), sql.Options{DSN: pgtest.Start(b, pgtest.Options{}).Database(b), MasterKey: masterKey})
		},
	}
	for _, name := range []string{"sqlite", "postgres"} {
		var s sql.Store
		b.Run(name, func(b *testing.B) {
			if s == nil {
				var err error
				if s, err = open[name](); err != nil {
					b.Fatal(err)
				}
				fillClusters(b, s.Clusters(), benchClusters)
				b.ResetTimer()
			}
			run(b, s)
		})
		if s != nil {
			s.Close()
		}
	}
}

// callConcurrently makes n calls in total from several callers and reports percentiles.
func callConcurrently(b *testing.B, callers int, call func(i int64) error) {
	var next atomic.Int64
	var all sync.WaitGroup
	took := make([][]time.Duration, callers)
	b.ResetTimer()
	used := cpuTime()
	for caller := range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				begun := time.Now()
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
				took[caller] = append(took[caller], time.Since(begun))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-used).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	every := slices.Concat(took...)
	if b.Failed() {
		b.FailNow()
	}
	slices.Sort(every)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(every[(len(every)-1)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}

// A page of 100 out of 10,000 clusters with 16 callers: p99 below 50 ms.
func BenchmarkClustersList(b *testing.B) {
	everyone := cluster.Scope{All: true}
	eachFilledStore(b, func(b *testing.B, s sql.Store) {
		l := s.Clusters()
		for name, query := range map[string]func() cluster.ClusterQuery{
			"all": func() cluster.ClusterQuery {
				return cluster.ClusterQuery{Scope: everyone, Limit: 100, Offset: rand.IntN(benchClusters - 100)}
			},
			"cursor": func() cluster.ClusterQuery {
				return cluster.ClusterQuery{Scope: everyone, Limit: 100, AfterID: 1 + rand.Int64N(benchClusters-100)}
			},
			"account": func() cluster.ClusterQuery {
				return cluster.ClusterQuery{Scope: cluster.Scope{AccountID: "account3"}, Limit: 100, Offset: rand.IntN(900)}
			},
			"state": func() cluster.ClusterQuery {
				return cluster.ClusterQuery{Scope: everyone, State: cluster.Running, Limit: 100, Offset: rand.IntN(9000)}
			},
			"keyword": func() cluster.ClusterQuery {
				return cluster.ClusterQuery{Scope: everyone, Keyword: "C001", Limit: 100}
			},
		} {
			b.Run(name, func(b *testing.B) {
				callConcurrently(b, benchCallers, func(int64) error {
					page, _, err := l.List(b.Context(), query())
					if err == nil && len(page) != 100 {
						err = fmt.Errorf("%d clusters in the page", len(page))
					}
					return err
				})
			})
		}
	})
}

// One record: p99 below 10 ms.
func BenchmarkClustersRecord(b *testing.B) {
	eachFilledStore(b, func(b *testing.B, s sql.Store) {
		callConcurrently(b, benchCallers, func(int64) error {
			_, err := s.Clusters().Record(b.Context(), fmt.Sprintf("c%05d", 1+rand.IntN(benchClusters)))
			return err
		})
	})
}

// All clusters with nodes and journal: a few seconds, and memory for one page.
func BenchmarkClustersScan(b *testing.B) {
	eachFilledStore(b, func(b *testing.B, s sql.Store) {
		var most uint64
		for b.Loop() {
			n := 0
			if err := s.Clusters().Scan(b.Context(), cluster.ScanQuery{}, func(record *cluster.Record) error {
				if n++; n%1000 == 0 {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapInuse)
				}
				if len(record.Nodes) != benchNodes || len(record.Journal) != benchRows {
					return fmt.Errorf("%d nodes, %d rows", len(record.Nodes), len(record.Journal))
				}
				return nil
			}); err != nil || n != benchClusters {
				b.Fatal(n, err)
			}
		}
		b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
	})
}

// The next phase of a journal row: one statement, and a share of a sync.
func BenchmarkClustersRow(b *testing.B) {
	eachFilledStore(b, func(b *testing.B, s sql.Store) {
		l := s.Clusters()
		for _, callers := range []int{1, benchCallers} {
			b.Run(fmt.Sprint(callers), func(b *testing.B) {
				rows := make(chan *cluster.JournalRow, callers)
				records := make(map[*cluster.JournalRow]int64)
				for i := range callers {
					record, err := l.Record(b.Context(), fmt.Sprintf("c%05d", i+1))
					if err != nil {
						b.Fatal(err)
					}
					records[&record.Journal[0]] = record.Cluster.ID
					rows <- &record.Journal[0]
				}
				before := s.Stats()
				callConcurrently(b, callers, func(i int64) error {
					row := <-rows
					defer func() { rows <- row }()
					row.Attempt = int(i)
					return l.Commit(b.Context(), &cluster.Change{ClusterID: records[row], Journal: []*cluster.JournalRow{row}})
				})
				after := s.Stats()
				b.ReportMetric(float64(after.Statements-before.Statements)/float64(b.N), "statements/op")
				b.ReportMetric(float64(after.Syncs-before.Syncs)/float64(b.N), "syncs/op")
			})
		}
	})
}

// The query of the controller at each pass.
func BenchmarkClustersUnsettled(b *testing.B) {
	eachFilledStore(b, func(b *testing.B, s sql.Store) {
		callConcurrently(b, 1, func(int64) error {
			_, err := s.Clusters().Unsettled(b.Context(), sqltest.When, 500)
			return err
		})
	})
}

// The heartbeats of 1,000 nodes in one write.
func BenchmarkClustersHeartbeats(b *testing.B) {
	eachFilledStore(b, func(b *testing.B, s sql.Store) {
		callConcurrently(b, 1, func(i int64) error {
			heartbeats := make([]cluster.NodeHeartbeat, 1000)
			for n := range heartbeats {
				heartbeats[n] = cluster.NodeHeartbeat{NodeID: 1 + rand.Int64N(benchClusters*benchNodes), At: sqltest.When.Add(time.Duration(i) * time.Second), Ready: true}
			}
			return s.Clusters().Heartbeats(b.Context(), heartbeats)
		})
	})
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
