package rollouts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestDelaysOf(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	set := func(ms int, partition int32) moment { return moment{at: at(ms), partition: partition} }
	ready := func(ms int, pod string) moment { return moment{at: at(ms), ready: types.UID(pod)} }
	for _, c := range []struct {
		what    string
		moments []moment
		want    []time.Duration
		early   int
		fails   string
	}{
		{"two delays, with a claim before and a kubelet that writes twice", []moment{
			set(0, holdAll), set(1, 4), ready(5, "f"), ready(6, "f"), ready(9, "e"), ready(11, "e"), set(29, 2), ready(38, "d"), ready(40, "c"), set(45, 0), ready(50, "b"), set(60, holdAll),
		}, []time.Duration{20 * time.Millisecond, 5 * time.Millisecond}, 0, ""},
		{"released too early", []moment{set(1, 4), ready(5, "d"), set(6, 2), ready(9, "c"), ready(10, "b"), set(11, 0)}, []time.Duration{time.Millisecond}, 1, ""},
		{"other batches", []moment{set(1, 0)}, nil, 0, "1 releases"},
		{"other sizes", []moment{set(1, 4), ready(2, "d"), ready(2, "c"), set(3, 3), set(4, 0)}, nil, 0, "partition 3"},
	} {
		got, early, err := delaysOf(c.moments, Options{Pods: 6, Batches: 3})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		if err != nil || early != c.early || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %d early, %v", c.what, got, early, err)
		}
	}
}

// The batches are dealt as Pawl deals them: the rest goes to the last ones.
func TestCumulative(t *testing.T) {
	o := Options{Pods: 8, Batches: 5}
	var got []int
	for batch := range o.Batches {
		got = append(got, o.cumulative(batch))
	}
	if !slices.Equal(got, []int{1, 2, 4, 6, 8}) {
		t.Errorf("8 in 5: %v", got)
	}
}
