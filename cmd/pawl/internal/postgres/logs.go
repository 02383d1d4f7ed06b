package postgres

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
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
	key      string // one for each log, as long as it is the same
	name, id string
	// read calls emit for each line, from the oldest; with follow until ctx ends.
	read func(ctx context.Context, o logOptions, emit func(line []byte)) error
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
			wanted := func(e entry) bool { return e.engine && !agent || !e.engine && !engine }
			if !o.follow {
				out := bufio.NewWriter(a.Out)
				return errors.Join(readLogs(ctx, sources, o, printer(out, o, wanted), a.logFailed), out.Flush())
			}
			look := func(ctx context.Context) ([]source, error) {
				if err := c.read(ctx); err != nil {
					return nil, err
				}
				return c.sources(ctx, id, manager)
			}
			return cli.WatchEnded(ctx, followLogs(ctx, sources, look, o, printer(a.Out, o, wanted), a.logFailed))
		})
	cmd.Long = `Each line is an object with the name and the id of its instance. PostgreSQL's messages have
logger postgres and its levels; the others are those of the agent, which starts and stops it.

-f goes on until Ctrl-C, also with instances and pods that are made later.
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

// printer prints the lines that are wanted and not too old.
func printer(out io.Writer, o logOptions, wanted func(entry) bool) func(entry) error {
	oldest := time.Time{}
	if o.since > 0 {
		oldest = time.Now().Add(-o.since)
	}
	return func(e entry) error {
		if !wanted(e) || e.at.Before(oldest) {
			return nil
		}
		_, err := out.Write(append(e.line, '\n'))
		return err
	}
}

func (a verbs) logFailed(s source, err error) {
	a.Hint("pawl: instance %s: %s", s.id, fault.Message(err))
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
		is.Time = time.Time{}
	}
	timed := !is.Time.IsZero()
	if !timed {
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
	return entry{at: is.Time, timed: timed, engine: is.Logger == "postgres", line: append([]byte(start), rest...)}
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
