package clusters

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql/db"
)

const heartbeatBatch = 128 // heartbeats of one statement

// heartbeatSQL stores n heartbeats that are newer than the stored ones. ready_at is set
// once, by the first heartbeat that reports ready.
func heartbeatSQL(n int) string {
	var values []string
	for i := range n {
		p := i * 6
		values = append(values, fmt.Sprintf("(CAST($%d AS bigint), CAST($%d AS bigint), CAST($%d AS text), CAST($%d AS bigint), CAST($%d AS text), CAST($%d AS text))",
			p+1, p+2, p+3, p+4, p+5, p+6))
	}
	return `WITH h (node, said, why, ready, addr, ver) AS (VALUES ` + strings.Join(values, ", ") + `)
		UPDATE container_cluster_vm_map SET hello_at = h.said, not_ready = h.why,
			ready_at = CASE WHEN h.ready = 1 AND ready_at = 0 THEN h.said ELSE ready_at END,
			address = CASE WHEN h.addr = '' THEN address ELSE h.addr END, version = CASE WHEN h.ver = '' THEN version ELSE h.ver END
		FROM h WHERE id = h.node AND removed IS NULL AND hello_at < h.said`
}

// Heartbeats implements cluster.Store.
func (c *Store) Heartbeats(ctx context.Context, heartbeats []cluster.NodeHeartbeat) error {
	if len(heartbeats) == 0 {
		return ctx.Err()
	}
	rounds := heartbeatRounds(heartbeats)
	write := db.Change{Lock: "cluster/hellos"}
	for _, round := range rounds {
		for some := range slices.Chunk(round, heartbeatBatch) {
			write.List = append(write.List, writeHeartbeats(some))
		}
	}
	return c.m.Apply(ctx, write)
}

// heartbeatRounds puts several heartbeats of one node into one round each, in their
// order, because a statement may name a row only once. It sorts each round by node, so
// that two writers never deadlock.
func heartbeatRounds(heartbeats []cluster.NodeHeartbeat) [][]cluster.NodeHeartbeat {
	var rounds [][]cluster.NodeHeartbeat
	heard := map[int64]int{}
	for _, h := range heartbeats {
		n := heard[h.NodeID]
		heard[h.NodeID]++
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], h)
	}
	for _, round := range rounds {
		slices.SortFunc(round, func(a, b cluster.NodeHeartbeat) int { return cmp.Compare(a.NodeID, b.NodeID) })
	}
	return rounds
}

// writeHeartbeats repeats the last heartbeat up to the next power of two, so that there
// are few distinct statements.
func writeHeartbeats(heartbeats []cluster.NodeHeartbeat) db.Statement {
	size := 1
	for size < len(heartbeats) {
		size *= 2
	}
	args := make([]any, 0, 6*size)
	for i := range size {
		h := heartbeats[min(i, len(heartbeats)-1)]
		args = append(args, h.NodeID, h.At.UnixNano(), db.Plain(h.NotReadyReason()), db.Flag(h.Ready), db.Plain(h.Address), db.Plain(h.Version))
	}
	return db.Statement{SQL: heartbeatSQL(size), Args: args}
}
