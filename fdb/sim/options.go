package sim

import "time"

// Options say how large a simulated database is and how long its parts take. Zero fields have the
// default that stands beside them.
type Options struct {
	Seed  uint64    // everything random comes from it
	Start time.Time // of the clock: 2026-01-01 00:00 UTC

	Shards     int   // pieces of the data: 60
	ShardBytes int64 // of one copy of a shard: 256 MiB
	DiskBytes  int64 // of a storage server: 128 GiB
	MoveBytes  int64 // data that moves in a second, all together: 100 MiB
	Moves      int   // shards that move at the same time: 8

	// Exits is called when a server ends by itself or by kill. Its caller starts it again by Start; nil:
	// it starts again by itself.
	Exits func(name string)
	// Resolves tells whether a name leads to a server; nil: its locality dns_name does. The server need not know
	// that name: each fdbserver answers as a coordinator wherever it is reached (fdbserver/worker.actor.cpp at 7.3.69).
	Resolves func(server, name string) bool

	Times Times
	Rules Rules
}

// Times are how long each part takes. Those with a random part take up to half as long again.
type Times struct {
	Join       time.Duration // from the start of a process to its first report, random: 1 s
	Restart    time.Duration // from the end of a process to its next start by the launcher: 1 s
	Detect     time.Duration // until the cluster controller misses a process, random: 1 s
	Recovery   time.Duration // until commits are accepted again, random: 2 s
	Drain      time.Duration // until the old logs are empty, random: 8 s
	Reaction   time.Duration // until data moves away from a silent storage server: 60 s (DATA_DISTRIBUTION_FAILURE_REACTION_TIME)
	Better     time.Duration // until the cluster controller takes better processes for the roles: 1 s
	Status     time.Duration // of a status call: 1 s
	Command    time.Duration // of any other call: 100 ms
	Snapshot   time.Duration // of a backup, while agents work, random: 30 s
	Restore    time.Duration // of the keys, while agents work, random: 30 s
	Transcript int           // lines of the transcript that are kept: 20,000
}

func (o Options) withDefaults() Options {
	if o.Start.IsZero() {
		o.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	or(&o.Shards, 60)
	or(&o.ShardBytes, 256<<20)
	or(&o.DiskBytes, 128<<30)
	or(&o.MoveBytes, 100<<20)
	or(&o.Moves, 8)
	t := &o.Times
	or(&t.Join, time.Second)
	or(&t.Restart, time.Second)
	or(&t.Detect, time.Second)
	or(&t.Recovery, 2*time.Second)
	or(&t.Drain, 8*time.Second)
	or(&t.Reaction, time.Minute)
	or(&t.Better, time.Second)
	or(&t.Status, time.Second)
	or(&t.Command, 100*time.Millisecond)
	or(&t.Snapshot, 30*time.Second)
	or(&t.Restore, 30*time.Second)
	or(&t.Transcript, 20000)
	o.Rules = o.Rules.withDefaults()
	return o
}

func or[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
