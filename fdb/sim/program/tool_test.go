package program_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/program"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// TestDialogue: a transaction through an interactive fdbcli with a terminal.
func TestDialogue(t *testing.T) {
	for _, v := range []string{"7.1.67", "7.3.69", "7.4.6"} {
		tw := newTwins(t, 11, v)
		through := func(args []string) (int, string, string) {
			return call{version: v, args: args, world: tw.world}.run(t)
		}
		tw.compare(t, fdb.Configure(fdb.Configuration{}, true), through)
		tw.world.Do(tw.first, func(c *sim.Cluster) { c.Advance(time.Minute) })
		home := t.TempDir()
		transact := func(read []fdb.Range, decide func(fdb.Values) ([]fdb.Write, error)) fdb.Result {
			d := fdb.NewDialogue(read, decide)
			c := fdb.Transaction()
			c.ClusterFile = tw.file
			argv, _ := c.Arguments()
			in, lines := io.Pipe()
			out, printed := io.Pipe()
			var errs buffer
			p := &program.Process{
				Args: append([]string{"fdbcli"}, argv...), Environ: []string{"HOME=" + home}, Stdin: in, Stdout: printed, Stderr: &errs, Terminal: true,
				Version: version(v), World: func() (*world.Peer, error) { return tw.world.Pipe(), nil },
			}
			done := make(chan int, 1)
			go func() {
				exit := program.Main(t.Context(), p)
				printed.Close()
				done <- exit
			}()
			for text := bufio.NewReader(out); ; {
				said := ""
				for !strings.HasSuffix(said, fdb.Prompt) {
					b, err := text.ReadByte()
					if err != nil {
						t.Fatalf("it ends after %q: %v", said, err)
					}
					said += string(b)
				}
				line, last := d.Next(strings.TrimSuffix(said, fdb.Prompt), errs.String())
				if _, err := io.WriteString(lines, line+"\n"); err != nil {
					t.Fatal(err)
				}
				if last {
					break
				}
			}
			if exit := <-done; exit != 0 {
				t.Errorf("exit fdbcli: %d", exit)
			}
			d.Ended()
			return d.Result()
		}
		const key = "\xff\x02/test"
		one := []fdb.Range{{Begin: key, End: key + "\x00"}}
		if r := transact(one, func(found fdb.Values) ([]fdb.Write, error) {
			if len(found) > 0 {
				t.Errorf("%s: there is %v", v, found)
			}
			return []fdb.Write{fdb.Set(key, []byte{0, 1, ' ', '"'})}, nil
		}); r.Outcome != fdb.Ok {
			t.Errorf("%s: %v", v, r)
		}
		if r := transact(one, func(found fdb.Values) ([]fdb.Write, error) {
			if len(found) != 1 || string(found[0].Value) != "\x00\x01 \"" {
				t.Errorf("%s: there is %v", v, found)
			}
			return nil, nil
		}); r.Outcome != fdb.Ok {
			t.Errorf("%s: %v", v, r)
		}
		if history := read(t, home+"/.fdbcli_history"); strings.Contains(history, "writemode") || !strings.Contains(history, "begin") {
			t.Errorf("%s: the history is %q", v, history)
		}
	}
}

// TestInteractive: without a terminal there is no prompt; the end of the input ends it.
func TestInteractive(t *testing.T) {
	tw := newTwins(t, 11, "7.3.69")
	exit, stdout, stderr := call{version: "7.3.69", args: []string{"fdbcli", "-C", tw.file}, stdin: "\nnonsense\n", world: tw.world}.run(t)
	want := "Using cluster file `" + tw.file + "'.\n\nThe database is unavailable; type `status' for more information.\n\nWelcome to the fdbcli. For help, type `help'.\n\n"
	if exit != 0 || stdout != want || stderr != "ERROR: Unknown command `nonsense'. Try `help'?\n" {
		t.Errorf("exit %d\n%s%s", exit, stdout, stderr)
	}
	exit, _, _ = call{version: "7.3.69", args: []string{"fdbcli", "-C", tw.file, "--no-status"}, stdin: "exit\nnonsense\n", world: tw.world}.run(t)
	if exit != 0 {
		t.Error(exit)
	}
}

// TestAgent: backup_agent is an agent while it runs.
func TestAgent(t *testing.T) {
	t.Parallel()
	s := serve(t, world.Options{Model: shape}, "sample:first@127.0.0.1:4801")
	file := write(t, t.TempDir()+"/fdb.cluster", s.first.String())
	cmd := exec.Command(filepath.Join(image(t, "7.3.69"), "backup_agent"), "-C", file, "--log", "--logdir", "/tmp", "--locality_zoneid=a", "--locality_machineid=b", "--knob_x=1")
	cmd.Env = s.environ()
	said := func(text string) func(*sim.Cluster) bool {
		return func(c *sim.Cluster) bool { return strings.Contains(strings.Join(c.Transcript(), "\n"), text) }
	}
	s.Do(s.first, func(*sim.Cluster) {})
	r := s.start(cmd)
	s.reach("the agent works", said(" 1 backup agents"))
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.reach("the agent has gone", said(" 0 backup agents"))
	<-r.exited
	if state, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || state.Signal() != syscall.SIGTERM {
		t.Errorf("it ends with %v", r.cmd.ProcessState)
	}
}

// TestWorld: the world as a process, which a server finds again after it was away.
func TestWorld(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	s := serve(t, world.Options{Virtual: true}, "sample:first@127.0.0.1:4901")
	s.address = folder + "/s"
	begin := func() *running {
		cmd := exec.Command(filepath.Join(image(t, "7.3.69"), "fdbserver"))
		cmd.Args = []string{"world", "--socket", s.address, "--seed", "3", "--speed", "20"}
		cmd.Env = s.environ()
		r := s.start(cmd)
		eventually(t, "the world listens", func() bool { return strings.Contains(r.log.String(), world.AddressVariable+"=") })
		return r
	}
	file := write(t, folder+"/fdb.cluster", s.first.String())
	server := exec.Command(filepath.Join(image(t, "7.3.69"), "fdbserver"), "-p", "127.0.0.1:4901", "-C", file, "-d", folder+"/data")
	server.Env = s.environ()
	first := begin()
	s.start(server)
	reached := func() bool {
		_, stdout, _ := s.cli("7.3.69", file, "status json")
		return strings.Contains(stdout, `"reachable":true`)
	}
	eventually(t, "the coordinator answers", reached)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.exited
	if reached() {
		t.Error("there is no world, and the coordinator answers")
	}
	begin()
	eventually(t, "the coordinator answers again", reached)
}

// TestEnded: a program whose context ends does so.
func TestEnded(t *testing.T) {
	tw := newTwins(t, 11, "7.3.69")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &program.Process{
		Args: []string{"fdbcli", "-C", tw.file, "--exec", "get a"}, Stdout: io.Discard, Stderr: io.Discard, Version: version("7.3.69"),
		World: func() (*world.Peer, error) { return tw.world.Pipe(), nil },
	}
	if exit := program.Main(ctx, p); exit != -1 {
		t.Error(exit)
	}
}
