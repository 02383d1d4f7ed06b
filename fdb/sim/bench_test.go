package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb/sim"
)

// BenchmarkMonth lets a month of a database of 100 servers pass, in which every hour one crashes and
// every day one is replaced.
func BenchmarkMonth(b *testing.B) {
	for b.Loop() {
		f := newFixture(b, shape{options: sim.Options{Seed: 1, Shards: 200}, storage: 60, log: 15, stateless: 25})
		f.do("configure new triple ssd logs=8")
		f.settle()
		for hour := range 30 * 24 {
			f.Advance(time.Hour)
			f.Crash(fmt.Sprintf("storage-%d", 6+hour%50))
			if hour%24 != 0 {
				continue
			}
			old := fmt.Sprintf("storage-%d", 6+hour/24)
			if hour/24 > 0 {
				f.add("storage", 100+hour/24)
			}
			f.Advance(10 * time.Minute)
			f.do("exclude locality_instance_id:" + old)
			f.By("operator", func() {
				f.Stop(old)
				f.Erase(old)
			})
			f.do("include locality_instance_id:" + old)
		}
		f.settle()
		f.clean()
	}
	b.ReportMetric(30*float64(b.N)/b.Elapsed().Seconds(), "days/s")
}

// BenchmarkStatus writes the status of 100 and of 1,000 servers.
func BenchmarkStatus(b *testing.B) {
	for _, count := range []int{100, 1000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			f := newFixture(b, shape{options: sim.Options{Seed: 1}, storage: count * 6 / 10, log: count / 10, stateless: count * 3 / 10})
			f.do("configure new triple ssd")
			f.settle()
			size := 0
			for b.Loop() {
				size = len(f.Status(f.Connection(), f.version))
			}
			b.ReportMetric(float64(size)/float64(count), "bytes/server")
		})
	}
}
