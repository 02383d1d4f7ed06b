package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/pawl-dev/pawl/operator/sharedstorage/local"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/enginelog"
)

// processHost runs programs beside the processes of a standalone cluster, on their machine.
type processHost struct {
	folder  local.Folder
	cluster port.Ref
}

// here returns an error if the cluster is not on this machine.
func (h processHost) here() error {
	if h.folder == "" {
		return Elsewhere.Errorf("%s/%s has no processes yet", h.cluster.Namespace, h.cluster.Name)
	}
	if err := h.folder.Readable(); err != nil {
		return Elsewhere.Errorf("%s/%s is in a folder of the server: %w", h.cluster.Namespace, h.cluster.Name, err)
	}
	return nil
}

func (h processHost) run(ctx context.Context, i instance, program string, args []string, s streams) (int, error) {
	if err := h.here(); err != nil {
		return 0, err
	}
	password, err := h.folder.Password()
	if err != nil {
		return 0, Elsewhere.Errorf("%w", err)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		config, configErr := h.folder.Config(i.Name)
		if path = filepath.Join(config.Binaries, program); configErr != nil || exec.Command(path).Err != nil || !exists(path) {
			return 0, ProgramMissing.Errorf("%w", err)
		}
	}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // psql or pgbench
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") }), // PGHOSTADDR, PGSERVICE and others lead elsewhere
		"PGHOST="+i.Address, "PGPORT="+strconv.Itoa(int(i.Port)), "PGUSER=postgres", "PGDATABASE=postgres", "PGPASSWORD="+password)
	cmd.Cancel = func() error {
		if in, ok := s.in.(*os.File); ok && errors.Is(ctx.Err(), context.Canceled) && term.IsTerminal(int(in.Fd())) { //nolint:gosec // a file descriptor
			return nil // Ctrl-C reaches the program by itself, and cancels a statement
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	err = cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() >= 0 {
		return ended.ExitCode(), nil
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, Unreachable.Errorf("%s: %w", program, err)
	}
	return 0, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// logEvery is the time between two looks at a log that is followed.
const logEvery = 500 * time.Millisecond

func (h processHost) sources(i instance) []source {
	folder := h.folder.Instance(i.Name)
	return []source{
		h.source("engine", i.Name, i.id, enginelog.NewReader(folder, i.Name).Next),
		h.source("agent", i.Name, i.id, (&agentLog{path: filepath.Join(folder, local.AgentLog)}).next),
	}
}

func (h processHost) manager(context.Context) ([]source, error) {
	name := h.cluster.Name + "-manager"
	return []source{h.source("manager", name, managerID, (&agentLog{path: filepath.Join(h.folder.Manager(), local.ManagerLog)}).next)}, h.here()
}

// source is a file. next returns what was added to it as lines of JSON.
func (h processHost) source(part, name, id string, next func() ([]byte, error)) source {
	return source{key: name + "/" + part, name: name, id: id, read: func(ctx context.Context, o logOptions, emit func(line []byte)) error {
		if err := h.here(); err != nil {
			return err
		}
		for calls := 1; ; calls++ {
			text, err := next()
			if err != nil {
				return err
			}
			if err := eachLine(bytes.NewReader(text), emit); err != nil {
				return err
			}
			switch {
			case o.follow:
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(logEvery):
				}
			case len(text) == 0 && calls > 1: // the last message ends at the second look
				return nil
			}
		}
	}}
}

// agentLog reads the log of an agent or a manager, which is text, as lines of JSON.
type agentLog struct {
	path   string
	offset int64
}

func (l *agentLog) next() ([]byte, error) {
	f, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, l.offset, 1<<40))
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	l.offset += int64(whole)
	var out bytes.Buffer
	err = eachLine(bytes.NewReader(text[:whole]), func(line []byte) {
		out.Write(jsonOfText(string(line)))
		out.WriteByte('\n')
	})
	return out.Bytes(), err
}

func (h processHost) secrets(context.Context) ([]string, error) {
	all, err := h.folder.Secrets()
	if err != nil {
		return nil, Elsewhere.Errorf("%w", err)
	}
	return all, nil
}

func (h processHost) metrics(ctx context.Context, i instance) ([]byte, error) {
	config, err := h.folder.Config(i.Name)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+config.Listen+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the agent answers %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, 8<<20))
}

func (processHost) more(context.Context) (map[string]any, error) { return nil, nil }
