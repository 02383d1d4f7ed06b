package controlplane_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// The processes and the folder of a killed owner are removed by the next start; a plane
// with a running owner is left alone.
func TestLeftoversOfAKilledOwnerEnd(t *testing.T) {
	p := suite.Plane(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "TEST_OWNER=1")
	out := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), temp) {
		t.Fatalf("the owner says %q", lines.Text())
	}
	dir := lines.Text()
	left := belongsTo(dir)
	if len(left) != 4 {
		t.Errorf("its plane has the processes %v", left)
	}
	if err := controlplane.Reap(); err != nil {
		t.Fatal(err)
	}
	for _, proc := range left {
		if proc.Gone() {
			t.Errorf("%v ended as its owner lived", proc.Args())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if len(belongsTo(dir)) < 2 {
		t.Fatal("nothing is left behind: this test shows nothing")
	}
	if err := controlplane.Reap(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the leftovers", func(context.Context) error {
		if left := belongsTo(dir); len(left) > 0 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) > 2 { // locks
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// belongsTo returns the processes with a folder in their command line.
func belongsTo(dir string) (found []kubelet.Proc) {
	for _, proc := range kubelet.Procs() {
		if strings.Contains(strings.Join(proc.Args(), " "), "="+dir+"/") {
			found = append(found, proc)
		}
	}
	return found
}

// runOwner is the owner process of the test above.
func runOwner() {
	p, err := controlplane.Start(controlplane.Options{Kubelet: kubelet.Options{Nodes: -1}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Dir())
	select {}
}
