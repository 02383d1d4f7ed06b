package enginelog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// FileName is the name of the log in the folder of an instance.
const FileName = "engine.log"

// Limit is the size in bytes at which the file is cut, and the most that one pass reads.
const Limit = 8 << 20

// Prefix begins each message of an engine: time, process and SQLSTATE, and of a session also user,
// database and application. A tab ends each of them, and no message begins with one.
const Prefix = "%m\t%p\t%e\t%q%u\t%d\t%a\t"

// message is a message of an engine, as one line of JSON.
type message struct {
	Time        string `json:"time"`
	Level       string `json:"level"` // as PostgreSQL says it: LOG, ERROR, …
	Msg         string `json:"msg"`
	Logger      string `json:"logger"` // postgres
	Instance    string `json:"instance,omitempty"`
	PID         string `json:"pid,omitempty"`
	SQLState    string `json:"sqlstate,omitempty"`
	User        string `json:"user,omitempty"`
	Database    string `json:"database,omitempty"`
	Application string `json:"application,omitempty"`
}

// parseMessage parses the lines of one message. A text without the prefix, such as the output of a
// library, is a message of its own.
func parseMessage(text string) message {
	m := message{Logger: "postgres", Level: "LOG", Msg: strings.TrimRight(text, "\n")}
	fields := strings.SplitN(text, "\t", 4)
	at, err := time.Parse("2006-01-02 15:04:05.000 MST", fields[0])
	if err != nil || len(fields) < 4 {
		return m
	}
	m.Time, m.PID = at.UTC().Format(time.RFC3339Nano), fields[1]
	if m.SQLState = fields[2]; m.SQLState == "00000" {
		m.SQLState = ""
	}
	rest := fields[3]
	level, said, ok := strings.Cut(rest, ":  ")
	if session := strings.SplitN(rest, "\t", 4); strings.Contains(level, "\t") && len(session) == 4 {
		m.User, m.Database, m.Application = session[0], session[1], session[2]
		level, said, ok = strings.Cut(session[3], ":  ")
	}
	if ok {
		m.Level, m.Msg = level, strings.ReplaceAll(strings.TrimRight(said, "\n"), "\n\t", "\n")
	}
	return m
}

// forwarder writes the log of an engine to a stream and keeps its file small. The engine writes to
// a file, not to a pipe, because it outlives the agent, and a frozen agent must not block it.
type forwarder struct {
	path     string
	instance string
	out      io.Writer // nil: the file is only kept small
	keep     bool      // leave the file as it is
	offset   int64
	rest     []byte // the begin of a message whose end was not read yet
}

// Forward writes the log of the engine in the folder of an instance to out until the context ends, from
// what is logged from now on. out is nil when the file is only to be kept small.
func Forward(ctx context.Context, folder, instance string, out io.Writer, log *slog.Logger) {
	f := &forwarder{path: filepath.Join(folder, FileName), instance: instance, out: out}
	if info, err := os.Stat(f.path); err == nil {
		f.offset = info.Size()
	}
	every := time.NewTicker(500 * time.Millisecond)
	defer every.Stop()
	for {
		if err := f.pass(); err != nil {
			log.Warn("forwarding the log of the engine", "err", err)
		}
		select {
		case <-ctx.Done():
			_ = f.pass() // what the end of the engine left; nobody reads an error any more
			return
		case <-every.C:
		}
	}
}

// pass forwards the messages that are complete, and cuts a file that is too large. A message is
// complete when the next one has begun or nothing more was written since the last pass.
func (f *forwarder) pass() error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.offset { // another file, or a cut one
		f.offset = 0
	}
	if f.out == nil {
		f.offset = info.Size()
	}
	idle := info.Size() == f.offset
	text, err := io.ReadAll(io.LimitReader(io.NewSectionReader(file, f.offset, info.Size()-f.offset), Limit))
	if err != nil {
		return err
	}
	f.offset += int64(len(text))
	f.rest = append(f.rest, text...)
	if err := f.write(idle); err != nil {
		return err
	}
	if !f.keep && f.offset >= Limit && f.offset == info.Size() {
		return f.cut()
	}
	return nil
}

// write writes the complete messages in rest.
func (f *forwarder) write(all bool) error {
	var out bytes.Buffer
	lines := bufio.NewReader(bytes.NewReader(f.rest))
	var said strings.Builder
	flush := func() {
		if said.Len() > 0 {
			m := parseMessage(said.String())
			m.Instance = f.instance
			line, _ := json.Marshal(m) // texts can always be encoded
			out.Write(append(line, '\n'))
			said.Reset()
		}
	}
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // a line that has no end yet
			if all {
				said.WriteString(line)
				line = ""
			}
			if all {
				flush()
			}
			f.rest = []byte(said.String() + line)
			break
		}
		if !strings.HasPrefix(line, "\t") {
			flush()
		}
		said.WriteString(line)
	}
	if out.Len() == 0 || f.out == nil {
		return nil
	}
	_, err := f.out.Write(out.Bytes())
	return err
}

// cut keeps one older copy and empties the file, which the engine goes on to append to. What the engine
// writes between the two is lost.
func (f *forwarder) cut() error {
	text, err := os.ReadFile(f.path)
	if err == nil {
		_ = os.WriteFile(f.path+".1", text, 0o600) // a convenience, for which a full volume has no room
	}
	f.offset = 0
	return os.Truncate(f.path, 0)
}
