package sim

import "time"

// An event is the end of a job or the heartbeat of a node.
type event struct {
	at   time.Time
	seq  int64
	id   string
	boot int64 // of a heartbeat: the VM start that it belongs to
}

type queue []event

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].seq < q[j].seq
}
func (q *queue) Push(x any) { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
