package rollouts

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// auditEvent is what is read of a line of the audit log.
type auditEvent struct {
	Stage    string    `json:"stage"`
	Answered time.Time `json:"stageTimestamp"`
	User     struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Request  json.RawMessage `json:"requestObject"`
	Response json.RawMessage `json:"responseObject"`
}

// moment is one write that the API server has accepted, at the time of its answer.
type moment struct {
	at        time.Time
	ready     types.UID // of the pod whose status became Ready; empty: a write to the set
	partition int32     // of the set after it
}

// offset is where the audit log ends now.
func (w *world) offset() (int64, error) {
	info, err := os.Stat(w.plane.AuditLog())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// moments are the writes since an offset of the audit log, by set, in their order.
func (w *world) moments(from int64) (map[string][]moment, error) {
	file, err := os.Open(w.plane.AuditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	all := map[string][]moment{}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // an incomplete last line is of a request that has not ended
			break
		}
		set, m, err := readMoment(line)
		if err != nil {
			return nil, err
		}
		if set != "" {
			all[set] = append(all[set], m)
		}
	}
	for _, moments := range all {
		slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	}
	return all, nil
}

// readMoment reads a line of the audit log; an empty name: it is none.
func readMoment(line []byte) (set string, m moment, err error) {
	var e auditEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return "", m, fmt.Errorf("a line of the audit log: %w", err)
	}
	if e.Object.Namespace != namespace || e.Stage != "ResponseComplete" || e.Status.Code >= 300 {
		return "", m, nil
	}
	m.at = e.Answered
	switch e.Object.Resource + "/" + e.Object.Subresource {
	case "statefulsets/":
		var s appsv1.StatefulSet
		if err := json.Unmarshal(e.Response, &s); err != nil {
			return "", m, fmt.Errorf("a StatefulSet in the audit log: %w", err)
		}
		m.partition = partition(&s)
		return e.Object.Name, m, nil
	case "pods/status":
		var p corev1.Pod
		if err := json.Unmarshal(e.Request, &p); err != nil {
			return "", m, fmt.Errorf("a status of a pod in the audit log: %w", err)
		}
		if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			return "", m, nil
		}
		m.ready = p.UID
		return e.Object.Name[:strings.LastIndex(e.Object.Name, "-")], m, nil
	}
	return "", m, nil
}

// releases are the writes that lower the partition of a set of so many pods into its range.
func releases(moments []moment, pods int) (indexes []int) {
	was := int32(pods)
	for i, m := range moments {
		if m.ready == "" && m.partition < was {
			was = m.partition
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// delaysOf are the times from the last Ready of a batch to the write that releases the next one, and how
// many batches were released before that. It is an error when the set had other batches than were planned.
func delaysOf(moments []moment, o Options) (all []time.Duration, early int, err error) {
	found := releases(moments, o.Pods)
	if len(found) != o.Batches {
		return nil, 0, fmt.Errorf("%d releases, %d batches were planned", len(found), o.Batches)
	}
	known := map[types.UID]bool{} // a kubelet that has not seen its own write yet writes again
	for batch, to := range found {
		if want := int32(o.Pods - o.cumulative(batch)); moments[to].partition != want {
			return nil, 0, fmt.Errorf("batch %d was released with partition %d, expected %d", batch, moments[to].partition, want)
		}
		if batch == 0 {
			continue
		}
		ready := 0
		last := moments[found[batch-1]].at
		for _, m := range moments[found[batch-1]:to] {
			if m.ready != "" && !known[m.ready] {
				known[m.ready] = true
				ready++
				last = m.at
			}
		}
		if size := o.cumulative(batch-1) - o.cumulative(batch-2); ready < size {
			early++
			continue
		}
		all = append(all, moments[to].at.Sub(last))
	}
	return all, early, nil
}

// delays are the release delays of the first n sets since an offset of the audit log. It is an error when
// a batch was released before the pods of the one before were Ready.
func (w *world) delays(from int64, n int) ([]time.Duration, error) {
	sorted, early, err := w.delaysAndEarly(from, n)
	if err == nil && early > 0 {
		err = fmt.Errorf("%d batches were released before the pods of the one before were Ready", early)
	}
	return sorted, err
}

// delaysAndEarly are delays, and the number of batches that were released too early.
func (w *world) delaysAndEarly(from int64, n int) (sorted []time.Duration, early int, err error) {
	all, err := w.moments(from)
	if err != nil {
		return nil, 0, err
	}
	for i := range n {
		found, tooEarly, err := delaysOf(all[setName(i)], w.Options)
		if err != nil {
			return nil, 0, fmt.Errorf("set %s: %w", setName(i), err)
		}
		sorted, early = append(sorted, found...), early+tooEarly
	}
	slices.Sort(sorted)
	return sorted, early, nil
}

// quantile of sorted times in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := min(int(q*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Millisecond)
}

// addDelays adds the figures of release delays under a name.
func addDelays(f Figures, name string, sorted []time.Duration) {
	key := func(what string) string { return cmp.Or(name, "delay") + what }
	f[key("P50Ms")], f[key("P90Ms")], f[key("P99Ms")], f[key("MaxMs")] = quantile(sorted, 0.5), quantile(sorted, 0.9), quantile(sorted, 0.99), quantile(sorted, 1)
	f[key("Releases")] = float64(len(sorted))
}
