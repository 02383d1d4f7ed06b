// Command backup measures archiving, backups and restores of a shared-storage cluster of processes:
// one writer and one reader, strict durability, an encrypted repository in a folder.
//
//	make build && go -C bench run ./backup -scale 70
//
// It prints a table: transactions a second with archiving off and on, in turn; the throughput of a
// full backup; the time from the order of a restore to the first write (RTO); and what is lost when
// the archive is cut off and then the cluster (RPO).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/operator/sharedstorage/local"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

func main() {
	var m measurement
	program := flag.String("pawl", "../bin/pawl", "the program of agents")
	folder := flag.String("dir", "/var/tmp", "folder for everything, on the disk to measure")
	flag.IntVar(&m.scale, "scale", 70, "scale of pgbench: 15 MB each")
	flag.IntVar(&m.rounds, "rounds", 3, "rounds of pgbench, each with archiving off and on")
	flag.DurationVar(&m.round, "round", 20*time.Second, "duration of a round")
	flag.Parse()
	if err := m.run(context.Background(), *program, *folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const pgbench = "/usr/lib/postgresql/15/bin/pgbench"

var (
	first  = port.Ref{Namespace: "bench", Name: "first", UID: "1"}
	second = port.Ref{Namespace: "bench", Name: "second", UID: "2"}
	third  = port.Ref{Namespace: "bench", Name: "third", UID: "3"}
)

type measurement struct {
	scale, rounds int
	round         time.Duration

	place *local.Placement
	to    port.Repository
}

func (m *measurement) run(ctx context.Context, program, folder string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(folder, "pawl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	repository := filepath.Join(dir, "repository")
	as, err := postgres.Runner("")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o711), os.Mkdir(repository, 0o700)) //nolint:gosec // the user of PostgreSQL enters it
	}
	if err == nil && as != nil {
		err = os.Chown(repository, int(as.Uid), int(as.Gid))
	}
	if err != nil {
		return err
	}
	if m.place, err = local.Open(local.Options{Dir: filepath.Join(dir, "clusters"), Program: []string{program}}); err != nil {
		return err
	}
	defer m.end(ctx)
	m.to = port.Repository{Stanza: "bench", Folder: repository, Passphrase: "bench"}
	for _, step := range []func(context.Context) error{m.create, m.throughput, m.backup, m.restore, m.loss} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// end removes all instances.
func (m *measurement) end(ctx context.Context) {
	for _, c := range []port.Ref{first, second, third} {
		for _, name := range []string{"w", "r"} {
			_ = await(ctx, func() error { // what is left is in the folder that is removed
				if err := m.place.Instances().Remove(ctx, c, name); err != nil {
					return err
				}
				list, err := m.place.Instances().List(ctx, c)
				if err == nil && slices.ContainsFunc(list, func(i port.Instance) bool { return i.Name == name }) {
					err = errors.New("it is leaving")
				}
				return err
			})
		}
	}
}

// await repeats a call until it succeeds, for half an hour.
func await(ctx context.Context, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	for every := time.NewTicker(50 * time.Millisecond); ; {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-every.C:
		}
	}
}

// bringUp creates an instance and waits until its engine answers in its role.
func (m *measurement) bringUp(ctx context.Context, c port.Ref, name string, kind port.Type, from port.Source) error {
	ports := m.place.Ports()
	if _, err := ports.Storage.Ensure(ctx, c, port.Volume{Size: 100 << 30}, "volume"); err != nil {
		return err
	}
	var granted bool
	return await(ctx, func() error {
		i, err := ports.Instances.Ensure(ctx, c, port.Instance{Name: name, ID: name, Type: kind, Class: port.Class{Name: "bench", Parameters: map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB"}}})
		if err != nil || i.State != port.Up {
			return errors.Join(err, fmt.Errorf("%s is %s", name, i.State))
		}
		st, err := ports.Engine.Status(ctx, c.Of(name))
		switch {
		case err != nil:
			return err
		case st.Code != "":
			return fmt.Errorf("%s: %s", st.Code, st.Message)
		case !st.Installed:
			return errors.Join(ports.Engine.Install(ctx, c.Of(name), from, "install"), errors.New("it is installed"))
		case kind == port.Writer && !granted:
			if err := ports.Storage.Grant(ctx, c, name, 1); err != nil {
				return err
			}
			granted = true
		}
		if !st.Running {
			return errors.Join(ports.Engine.Start(ctx, c.Of(name)), errors.New("it starts"))
		}
		if !st.Ready || kind == port.Reader && !st.Streaming || kind == port.Writer && st.Role != port.Primary {
			return errors.New("it is not ready")
		}
		return nil
	})
}

func (m *measurement) connect(ctx context.Context, c port.Ref) (*pgx.Conn, error) {
	at, err := m.place.Instances().Locate(ctx, c.Of("w"))
	if err != nil {
		return nil, err
	}
	password, err := m.place.Password(c)
	if err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=disable", at.Engine.Host, at.Engine.Port, password))
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

func (m *measurement) pgbench(ctx context.Context, args ...string) (float64, error) {
	at, err := m.place.Instances().Locate(ctx, first.Of("w"))
	if err != nil {
		return 0, err
	}
	password, err := m.place.Password(first)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, pgbench, append(args, "postgres")...)
	cmd.Env = []string{"PGHOST=" + at.Engine.Host, "PGPORT=" + strconv.Itoa(int(at.Engine.Port)), "PGUSER=postgres", "PGPASSWORD=" + password}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	if found := tps.FindSubmatch(out); found != nil {
		return strconv.ParseFloat(string(found[1]), 64)
	}
	return 0, nil
}

func (m *measurement) create(ctx context.Context) error {
	if err := m.bringUp(ctx, first, "w", port.Writer, port.Source{}); err != nil {
		return err
	}
	if err := m.bringUp(ctx, first, "r", port.Reader, port.Source{From: "w"}); err != nil {
		return err
	}
	_, err := m.pgbench(ctx, "-q", "-i", "-s", strconv.Itoa(m.scale))
	return err
}

// archive sets or removes the repository of the writer, and waits until that is in effect.
func (m *measurement) archive(ctx context.Context, to *port.Repository) error {
	if err := m.place.Engine().Archive(ctx, first.Of("w"), to); err != nil {
		return err
	}
	return await(ctx, func() error {
		st, err := m.place.Engine().Status(ctx, first.Of("w"))
		if err == nil && (st.Archive.Repository != to.Hash() || st.Archive.Unreadable || st.Archive.Failing || st.Archive.Waiting > 0) {
			err = fmt.Errorf("%+v", st.Archive)
		}
		return err
	})
}

func (m *measurement) throughput(ctx context.Context) error {
	got := map[string][]float64{}
	for range m.rounds {
		for _, mode := range []struct {
			name string
			to   *port.Repository
		}{{"off", nil}, {"on", &m.to}} {
			if err := m.archive(ctx, mode.to); err != nil {
				return err
			}
			rate, err := m.pgbench(ctx, "-c", "8", "-j", "2", "-M", "prepared", "-T", strconv.Itoa(int(m.round.Seconds())))
			if err != nil {
				return err
			}
			got[mode.name] = append(got[mode.name], rate)
		}
	}
	off, on := median(got["off"]), median(got["on"])
	fmt.Printf("archiving off   %8.0f transactions/s (median of %.0f)\n", off, got["off"])
	fmt.Printf("archiving on    %8.0f transactions/s (median of %.0f): %+.0f %%\n", on, got["on"], 100*(on-off)/off)
	return nil
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

func (m *measurement) backup(ctx context.Context) error {
	began := time.Now()
	var taken port.Backup
	err := await(ctx, func() (err error) {
		taken, err = m.place.Engine().Backup(ctx, first.Of("w"), port.BackupOrder{Key: "bench", Type: port.FullBackup})
		if err == nil && taken.State != port.JobDone {
			err = fmt.Errorf("%s: %s", taken.State, taken.Message)
		}
		return err
	})
	took := time.Since(began)
	fmt.Printf("full backup     %8.1f s for %.2f GB, %.2f GB stored: %.0f MB/s\n", took.Seconds(), gb(taken.Size), gb(taken.Stored), float64(taken.Size)/1e6/took.Seconds())
	return err
}

func gb(bytes int64) float64 { return float64(bytes) / 1e9 }

func (m *measurement) restore(ctx context.Context) error {
	began := time.Now()
	if err := m.bringUp(ctx, second, "w", port.Writer, port.Source{Restore: &port.Restore{Repository: m.to}}); err != nil {
		return err
	}
	c, err := m.connect(ctx, second)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "CREATE TABLE restored ()"); err != nil {
		return err
	}
	fmt.Printf("RTO             %8.1f s from the order of a restore to the first write\n", time.Since(began).Seconds())
	return nil
}

// loss writes a row every 10 ms, cuts the archive off, ends the cluster half a minute later, and
// restores what is archived.
func (m *measurement) loss(ctx context.Context) error {
	c, err := m.connect(ctx, first)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "CREATE TABLE written (at timestamptz)"); err != nil {
		return err
	}
	var cut time.Time
	for began := time.Now(); time.Since(began) < 110*time.Second; time.Sleep(10 * time.Millisecond) {
		if cut.IsZero() && time.Since(began) > 80*time.Second {
			if err := os.Rename(m.to.Folder, m.to.Folder+".away"); err != nil {
				return err
			}
			cut = time.Now()
		}
		if _, err := c.Exec(ctx, "INSERT INTO written VALUES (clock_timestamp())"); err != nil {
			return err
		}
	}
	ended := time.Now()
	if err := m.place.Engine().Stop(ctx, first.Of("w"), port.Immediate); err != nil {
		return err
	}
	if err := os.Rename(m.to.Folder+".away", m.to.Folder); err != nil {
		return err
	}
	if err := m.bringUp(ctx, third, "w", port.Writer, port.Source{Restore: &port.Restore{Repository: m.to}}); err != nil {
		return err
	}
	restored, err := m.connect(ctx, third)
	if err != nil {
		return err
	}
	defer restored.Close(ctx)
	var last time.Time
	if err := restored.QueryRow(ctx, "SELECT coalesce(max(at), 'epoch') FROM written").Scan(&last); err != nil {
		return err
	}
	fmt.Printf("RPO             %8.1f s before the cut (archive_timeout is 60 s), %.1f s before the end\n", cut.Sub(last).Seconds(), ended.Sub(last).Seconds())
	return nil
}
