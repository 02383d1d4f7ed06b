// Package guide_test tests the guide: its files load, its commands print the output
// in the pages, and its Go code is that of the examples.
//
//	```yaml file=flows/a.yaml   a file of the page, for the commands below
//	```yaml steps|keys|group|faults|machine|manifest   a part of a file, checked alone
//	```console                  commands after "$ ", run in order, and their output
//	```go from=examples/…       lines of that file
//	```mermaid                  the lifecycle of clusters in the code
//	```sh, ```text, ```json     not checked
//
// UPDATE=1 go test ./docs/guide rewrites the output of commands; PAWL is the
// path of a built program.
package guide_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// block is a fenced block of a page.
type block struct {
	line      int // of its first line of text, from 1
	info      string
	text      string
	from, end int // of the text in the page
}

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func blocks(page string) []block {
	var all []block
	for _, m := range fence.FindAllStringSubmatchIndex(page, -1) {
		all = append(all, block{
			line: strings.Count(page[:m[4]], "\n") + 1, info: page[m[2]:m[3]], text: page[m[4]:m[5]], from: m[4], end: m[5],
		})
	}
	return all
}

func pages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// actions returns all built-in actions.
func actions(t *testing.T) []workflow.Action {
	t.Helper()
	all, err := action.Standard(action.Options{Only: action.Names(), Status: driver.Status{Objects: control.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFiles: the loaders accept the flow and machine files in the pages.
func TestFiles(t *testing.T) {
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			dir := t.TempDir()
			for _, b := range blocks(read(t, page)) {
				kind, what, _ := strings.Cut(b.info, " ")
				switch kind {
				case "yaml":
					if err := check(dir, what, b.text, actions(t)); err != nil {
						t.Errorf("%s:%d: %v", page, b.line, err)
					}
				case "go":
					source, ok := strings.CutPrefix(what, "from=")
					if !ok {
						t.Errorf("%s:%d: Go that no test compiles: take it from an example", page, b.line)
					} else if !strings.Contains(plain(read(t, filepath.Join(root, source))), plain(b.text)) {
						t.Errorf("%s:%d: these lines are not in %s", page, b.line, source)
					}
				case "mermaid":
					if b.text != cluster.Diagram("") {
						t.Errorf("%s:%d: the lifecycle is drawn otherwise by now:\n%s", page, b.line, cluster.Diagram(""))
					}
				case "js": // make test-clients executes it
					if b.text != read(t, filepath.Join(root, "tools/clients/typescript/example.mjs")) {
						t.Errorf("%s:%d: tools/clients/typescript/example.mjs is another program", page, b.line)
					}
				case "console", "sh", "text", "json":
				default:
					t.Errorf("%s:%d: a block of a kind that this test does not know: %q", page, b.line, b.info)
				}
			}
			if err := loadAll(dir, actions(t)); err != nil {
				t.Errorf("%s: the files of the page: %v", page, err)
			}
		})
	}
}

// plain removes indentation, so that a page may show a part.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// TestLifecycleTable: the page's table of transitions equals that of the service.
func TestLifecycleTable(t *testing.T) {
	if want := cluster.EdgeTable(); !strings.Contains(read(t, "container-clusters.md"), "\n\n"+want+"\n") {
		t.Errorf("the page has not this table:\n%s", want)
	}
}

const oneStep = "steps: [{stepName: Only, uses: sleep, with: {for: 1s}}]\n"

func check(dir, what, text string, known []workflow.Action) error {
	what, codes, _ := strings.Cut(what, " faults=") // those that the flow declares in a file of its own
	flow := func(name, text string) error {
		files := []flowfile.File{{Name: name, Data: []byte(text)}}
		if codes != "" {
			declared := "faults:\n"
			for code := range strings.SplitSeq(codes, ",") {
				declared += "- {code: " + code + ", class: blocked, title: it failed, remedy: Look at it.}\n"
			}
			files = append(files, flowfile.File{Name: "part_faults.yaml", Data: []byte(declared)})
		}
		_, err := flowfile.Parse(files, flowfile.Options{Actions: known, AnyAction: true, Check: true, Flows: []string{"Child"}})
		return err
	}
	switch what {
	case "steps":
		return flow("flow.yaml", "flowName: Part\nsteps:\n"+text)
	case "keys":
		if !strings.Contains(text, "\nsteps:") {
			text += oneStep
		}
		return flow("flow.yaml", "flowName: Part\n"+text)
	case "group":
		return flow("part_step_group.yaml", text)
	case "faults":
		_, err := flowfile.Parse([]flowfile.File{{Name: "part_faults.yaml", Data: []byte(text)}}, flowfile.Options{Check: true, Flows: []string{"Child"}})
		return err
	case "machine":
		_, err := machinefile.Parse([]flowfile.File{{Name: "machine.yaml", Data: []byte(text)}}, machinefile.Options{Actions: known, AnyFlow: true})
		return err
	case "manifest", "config":
		var v map[string]any
		return yaml.Unmarshal([]byte(text), &v)
	}
	if name, ok := strings.CutPrefix(what, "file="); ok && filepath.IsLocal(name) {
		return write(filepath.Join(dir, name), text)
	}
	return fmt.Errorf("say what the block is: file=NAME, steps, keys, group, faults, machine, manifest or config")
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// loadAll loads the files of a page as pawl does.
func loadAll(dir string, known []workflow.Action) error {
	folders := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !isManifest(path) {
			folders[filepath.Dir(path)] = true
		}
		return err
	})
	if err != nil || len(folders) == 0 {
		return err
	}
	var flows []string
	paths := slices.Sorted(maps.Keys(folders))
	for _, path := range paths {
		set, err := flowfile.Load([]string{path}, flowfile.Options{Actions: known, Check: true})
		if err != nil {
			return err
		}
		for _, f := range set.Flows() {
			flows = append(flows, f.Name)
		}
	}
	_, err = machinefile.Load(paths, machinefile.Options{Actions: known, Flows: flows})
	return err
}

// isManifest distinguishes objects and settings from flows and machines.
func isManifest(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && !bytes.Contains(text, []byte("flowName:")) && !bytes.Contains(text, []byte("machine:")) &&
		!bytes.Contains(text, []byte("groupName:")) && !bytes.Contains(text, []byte("faults:"))
}

// TestTranscripts: the output in the pages is the output of pawl.
func TestTranscripts(t *testing.T) {
	bin := pawl(t)
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			if page == "backup-and-restore.md" {
				needs(t, "psql", "pgbackrest")
			}
			text := read(t, page)
			printed := play(t, page, text, bin)
			if os.Getenv("UPDATE") != "" && printed != text {
				if err := write(page, printed); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// needs skips a page whose programs are missing, or whose files only root can give to others.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is missing: apt-get install postgresql pgbackrest", name)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to the user of PostgreSQL")
	}
}

// pawl returns the folder of the program: that of $PAWL, or of a new build.
func pawl(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("PAWL"); path != "" {
		return filepath.Dir(path)
	}
	bin := t.TempDir()
	// #nosec G204 -- our own go command
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "pawl"), root+"/cmd/pawl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// play runs the commands of a page and returns the page with their output.
func play(t *testing.T, page, text, bin string) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{dir: dir, page: strings.TrimSuffix(page, ".md"), env: []string{
		"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "USER=ann", "XDG_STATE_HOME=" + filepath.Join(dir, ".state"),
		"NO_COLOR=1", "TZ=UTC", "LC_ALL=C.UTF-8",
	}}
	t.Cleanup(s.end)
	var printed strings.Builder
	last := 0
	for _, b := range blocks(text) {
		kind, what, _ := strings.Cut(b.info, " ")
		if name, ok := strings.CutPrefix(what, "file="); kind == "yaml" && ok {
			if err := write(filepath.Join(dir, name), b.text); err != nil {
				t.Fatal(err)
			}
		}
		if kind != "console" {
			continue
		}
		got := s.block(t, b.text)
		if same(got) != same(b.text) {
			if os.Getenv("UPDATE") == "" {
				t.Errorf("%s:%d: the page says\n%s\nand pawl\n%s\nUPDATE=1 rewrites it", page, b.line, b.text, got)
			}
			printed.WriteString(text[last:b.from] + got)
			last = b.end
		}
	}
	return printed.String() + text[last:]
}

// shell runs the commands of one page.
type shell struct {
	dir, page string
	env       []string
	server    string // started last; cluster commands use it
	runs      int
	exit      int
	children  []*exec.Cmd
}

func (s *shell) block(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
			command = s.named(t, command)
			fmt.Fprintf(&out, "$ %s\n%s", command, s.run(t, command))
		}
	}
	return out.String()
}

// named replaces @ by the id of the newest run, for UPDATE.
func (s *shell) named(t *testing.T, command string) string {
	t.Helper()
	if !strings.Contains(command, " @") {
		return command
	}
	_, listed, _ := strings.Cut(s.run(t, "pawl get --limit 1"), "\n")
	id, _, _ := strings.Cut(listed, " ")
	return strings.ReplaceAll(command, " @", " "+id)
}

func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	if name, value, ok := strings.Cut(strings.TrimPrefix(command, "export "), "="); ok && strings.HasPrefix(command, "export ") {
		if inner, ok := strings.CutPrefix(value, "$("); ok {
			value = strings.TrimSpace(s.run(t, strings.TrimSuffix(inner, ")")))
		}
		s.env = append(s.env, name+"="+value)
		return ""
	}
	env := append(slices.Clone(s.env), "PAWL_LISTEN=127.0.0.1:0")
	if strings.Contains(command, "pawl cluster ") && s.server != "" { // its port changes each time
		env = append(env, "PAWL_SERVER="+s.server)
	}
	if strings.Contains(command, "pawl run ") { // so that ids are the same each time
		s.runs++
		env = append(env, fmt.Sprintf("PAWL_REQUEST_ID=guide-%s-%d", s.page, s.runs))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	behind, background := strings.CutSuffix(command, " &")
	if background {
		return s.start(t, behind, env)
	}
	// #nosec G204 -- the commands of our own pages
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", fmt.Sprintf("(exit %d); %s", s.exit, command))
	cmd.Dir, cmd.Env = s.dir, env
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	s.exit = cmd.ProcessState.ExitCode()
	if ctx.Err() != nil {
		t.Errorf("%s: %v", command, cmp.Or(err, ctx.Err()))
	}
	return s.output(string(said))
}

// start runs a server until the page ends, and returns its first line of output.
func (s *shell) start(t *testing.T, command string, env []string) string {
	t.Helper()
	// #nosec G204 -- the commands of our own pages
	cmd := exec.Command("/bin/sh", "-c", "exec "+command)
	cmd.Dir, cmd.Env = s.dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.children = append(s.children, cmd)
	line := make([]byte, 0, 256)
	for b := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")); {
		if _, err := out.Read(b); err != nil {
			t.Fatalf("%s ended: %v", command, err)
		}
		line = append(line, b[0])
	}
	s.server = listening.FindString(string(line))
	return s.output(string(line))
}

var listening = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// end stops all processes of the page and the VMs of its server.
func (s *shell) end() {
	defer func() {
		said, _ := exec.Command("ps", "-eww", "-o", "pid=,args=").Output()
		for line := range strings.Lines(string(said)) {
			var pid int
			if strings.Contains(line, "pawl node --dir "+s.dir) {
				if _, err := fmt.Sscan(line, &pid); err == nil {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	}()
	for _, child := range s.children {
		_ = syscall.Kill(-child.Process.Pid, syscall.SIGTERM)
		_ = child.Wait()
	}
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// output returns output in the form of a page.
func (s *shell) output(out string) string {
	out = strings.ReplaceAll(out, s.dir, "/home/ann")
	out = port.ReplaceAllString(out, "127.0.0.1:7295")
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	var lines strings.Builder
	for line := range strings.Lines(out) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return lines.String()
}

var (
	instant  = regexp.MustCompile(`(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(\.\d+)?Z?`)
	duration = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|µs|us|s|m|h|d))+\b`)
	uid      = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	pausedID = regexp.MustCompile(`(?m)^[a-z2-7]{4} | [a-z2-7]{4} +SPAN|resume [a-z2-7]{4}$`) // of machines: they depend on the object's uid
	machines = regexp.MustCompile(`\b(vm|network)-[0-9a-f]{24}\b`)                            // the provider's ids
	unique   = regexp.MustCompile(`\b(blue)-[0-9a-f]{6}\b`)                                   // names contain a part of the cluster's id
	address  = regexp.MustCompile(`127\.\d+\.\d+\.\d+`)                                       // of a VM
	passing  = regexp.MustCompile(`(?m)^(blue|green) [A-Z].*\n`)                              // progress of --wait, which depends on timing
	byRun    = regexp.MustCompile(`, run [a-z2-7]{4}\b`)                                      // in the history of a cluster
	spaces   = regexp.MustCompile(` +`)
)

// same removes the parts that differ between runs.
func same(text string) string {
	text = passing.ReplaceAllString(text, "")
	text = uid.ReplaceAllString(text, "UID") // ids first: 465d may be part of an id or a duration
	text = unique.ReplaceAllString(machines.ReplaceAllString(text, "$1-ID"), "$1-ID")
	text = instant.ReplaceAllString(text, "TIME")
	text = duration.ReplaceAllString(text, "SPAN")
	text = pausedID.ReplaceAllString(text, "ID ")
	text = byRun.ReplaceAllString(address.ReplaceAllString(text, "ADDRESS"), ", run ID")
	return spaces.ReplaceAllString(text, " ")
}
