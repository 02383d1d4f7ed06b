package postgres

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fault"
)

// managerID stands for the cluster manager where instances have their id.
const managerID = "manager"

// logOptions say what is read of logs.
type logOptions struct {
	follow bool
	since  time.Duration // 0: all
}

// source is one log: of an instance, a part of it, or the manager.
type source struct {
	name, id string
	// read calls emit for each line, from the oldest; with follow until ctx ends.
	read func(ctx context.Context, o logOptions, emit func(line []byte)) error
}

// entry is a line of a log.
type entry struct {
	at     time.Time
	engine bool   // written by PostgreSQL
	line   []byte // JSON, with instance and id
	from   int    // source
	seq    int    // order of arrival
}

// entries is a heap of lines: the oldest first, and of one time the first to arrive.
type entries []entry

func (h entries) Len() int      { return len(h) }
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *entries) Push(e any)   { *h = append(*h, e.(entry)) }

func (h entries) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

func (a verbs) logsCommand() *cobra.Command {
	var id string
	var o logOptions
	var engine, agent, manager bool
	cmd := a.verb("logs CLUSTER", "Print the logs of all instances as lines of JSON, in the order of time",
		"  pawl pg logs orders --since 10m\n  pawl pg logs orders --instance 2 --engine -f\n  pawl pg logs orders --manager | jq -r '[.time,.id,.msg] | @tsv'", cobra.ExactArgs(1),
		func(ctx context.Context, _ *cobra.Command, c *cluster, _ []string) error {
			if engine && agent {
				return cli.Usage.Errorf("give --engine or --agent, or neither for both")
			}
			sources, err := c.sources(ctx, id, manager)
			if err != nil {
				return err
			}
			return a.printLogs(ctx, sources, o, func(e entry) bool { return e.engine && !agent || !e.engine && !engine })
		})
	cmd.Long = `Each line is an object with the name and the id of its instance. PostgreSQL's messages have
logger postgres and its levels; the others are those of the agent, which starts and stops it.

-f goes on with the instances that there are now; a pod that is made later is not followed.
On Kubernetes the lines are those of the pods, standalone those of the files that are kept.`
	a.instanceFlag(cmd, &id, "only the instance with this `id`")
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what is logged")
	f.DurationVar(&o.since, "since", 0, "only what is not older than this `time`")
	f.BoolVar(&engine, "engine", false, "only the messages of PostgreSQL")
	f.BoolVar(&agent, "agent", false, "only the messages of the agents")
	f.BoolVar(&manager, "manager", false, "also those of the cluster manager, which fails over")
	return cmd
}

// sources returns the logs of all instances, or of one.
func (c *cluster) sources(ctx context.Context, id string, manager bool) ([]source, error) {
	of := c.instances()
	if id != "" {
		one, err := c.instance(id)
		if err != nil {
			return nil, err
		}
		of = []instance{one}
	}
	var all []source
	for _, i := range of {
		all = append(all, c.host.sources(i)...)
	}
	if manager {
		more, err := c.host.manager(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

func (a verbs) printLogs(ctx context.Context, sources []source, o logOptions, wanted func(entry) bool) error {
	oldest := time.Time{}
	if o.since > 0 {
		oldest = time.Now().Add(-o.since)
	}
	out := bufio.NewWriter(a.Out)
	defer out.Flush()
	err := readLogs(ctx, sources, o, func(e entry) error {
		if !wanted(e) || e.at.Before(oldest) {
			return nil
		}
		_, err := out.Write(append(e.line, '\n'))
		if o.follow {
			err = errors.Join(err, out.Flush())
		}
		return err
	}, func(s source, err error) { a.Hint("pawl: instance %s: %s", s.id, fault.Message(err)) })
	if o.follow {
		return cli.WatchEnded(ctx, err)
	}
	return err
}

// readLogs emits the lines of all sources in the order of time. A source that cannot be read is told to
// failed; if none can, that is the error.
func readLogs(ctx context.Context, sources []source, o logOptions, emit func(entry) error, failed func(source, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := make(chan entry)
	ended := make(chan int)
	errs := make([]error, len(sources))
	var reading sync.WaitGroup
	for n, s := range sources {
		reading.Go(func() {
			last := time.Time{}
			errs[n] = s.read(ctx, o, func(line []byte) {
				e := parseLine(line, s, last)
				last, e.from = e.at, n
				select {
				case in <- e:
				case <-ctx.Done():
				}
			})
			select {
			case ended <- n:
			case <-ctx.Done():
			}
		})
	}
	err := merge(ctx, len(sources), o.follow, in, ended, emit)
	stopped := ctx.Err() != nil
	cancel()
	reading.Wait()
	bad := 0
	for n, s := range sources {
		if errs[n] != nil && !stopped {
			bad++
			failed(s, errs[n])
		}
	}
	if err == nil && bad > 0 && bad == len(sources) {
		err = errs[0]
	}
	return err
}

// mergeHold is how long a line of a log that is followed waits for older ones of other sources.
const mergeHold = 300 * time.Millisecond

// merge emits all lines when all sources have ended: a source is not quite in order itself, since an agent
// passes the messages of its engine on a little later. With follow it emits the oldest line as soon as all
// sources have one, or have been silent for mergeHold.
func merge(ctx context.Context, open int, follow bool, in <-chan entry, ended <-chan int, emit func(entry) error) error {
	var held entries
	waiting := map[int]int{}
	hold := time.NewTimer(mergeHold)
	defer hold.Stop()
	silent := hold.C
	if !follow {
		silent = nil
	}
	done := map[int]bool{}
	seq := 0
	full := func() bool { // each open source has a line
		n := 0
		for from, lines := range waiting {
			if lines > 0 && !done[from] {
				n++
			}
		}
		return n == open
	}
	release := func(all bool) error {
		for len(held) > 0 && (all || follow && full()) {
			e := heap.Pop(&held).(entry)
			waiting[e.from]--
			if err := emit(e); err != nil {
				return err
			}
		}
		return nil
	}
	for open > 0 {
		all := false
		select {
		case e := <-in:
			seq++
			e.seq = seq
			heap.Push(&held, e)
			waiting[e.from]++
			hold.Reset(mergeHold)
		case n := <-ended:
			open--
			done[n] = true
		case <-silent:
			all = true
			hold.Reset(mergeHold)
		case <-ctx.Done():
			return release(true)
		}
		if err := release(all); err != nil {
			return err
		}
	}
	return release(true)
}

// parseLine reads a line of JSON and adds instance and id. Other text, such as that of a crash, becomes a
// message of the time of the line before.
func parseLine(line []byte, s source, last time.Time) entry {
	var is struct {
		Time     time.Time `json:"time"`
		Logger   string    `json:"logger"`
		Instance *string   `json:"instance"`
	}
	if len(line) < 2 || line[0] != '{' || json.Unmarshal(line, &is) != nil {
		line, _ = json.Marshal(map[string]string{"msg": string(line)}) // texts can always be encoded
		is.Time = last
	}
	if is.Time.IsZero() {
		is.Time = last
	}
	start := `{"id":` + quoted(s.id)
	if is.Instance == nil {
		start += `,"instance":` + quoted(s.name)
	}
	rest := bytes.TrimSpace(line[1:])
	if !bytes.HasPrefix(rest, []byte("}")) {
		start += ","
	}
	return entry{at: is.Time, engine: is.Logger == "postgres", line: append([]byte(start), rest...)}
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // texts can always be encoded
	return string(b)
}

// jsonOfText makes JSON of a line of slog's text handler: key=value, with quoted values.
func jsonOfText(line string) []byte {
	var b bytes.Buffer
	rest := line
	for rest != "" {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || key == "" || strings.ContainsAny(key, " \"") {
			return messageOf(line)
		}
		var value string
		if quote, err := strconv.QuotedPrefix(after); err == nil && after[0] == '"' {
			value, _ = strconv.Unquote(quote) // it is one
			after = after[len(quote):]
		} else {
			value, after, _ = strings.Cut(after, " ")
			after = " " + after
		}
		b.WriteString("," + quoted(key) + ":" + quoted(value))
		rest = strings.TrimPrefix(after, " ")
	}
	if !strings.HasPrefix(line, "time=") {
		return messageOf(line)
	}
	return append([]byte("{"), append(b.Bytes()[1:], '}')...)
}

func messageOf(line string) []byte {
	b, _ := json.Marshal(map[string]string{"msg": line}) // texts can always be encoded
	return b
}

// eachLine calls emit for each line that is not empty. A line may have any length.
func eachLine(r io.Reader, emit func(line []byte)) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			emit(line)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
