package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestGitHubWorkflow executes the steps of examples/github-actions as GitHub does, on a repository with a pull request
// that changes a flow, and reads the findings with the problem matcher.
func TestGitHubWorkflow(t *testing.T) {
	var w struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	text, err := os.ReadFile("../../examples/github-actions/pawl.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &w)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "flows"), os.DirFS("../../examples/testing/flows")); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bash := func(script string) (string, error) {
		cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GITHUB_BASE_REF=main", "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary"), "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	step := func(name string) (string, error) {
		t.Helper()
		for _, s := range w.Jobs["flows"].Steps {
			if s.Name == name {
				return bash(s.Run)
			}
		}
		t.Fatalf("no step %q", name)
		return "", nil
	}
	write("inputs/create.yaml", "name: shop\n")
	if out, err := bash(`git init -q -b main . && git config user.email a@b && git config user.name a && git add . && git commit -qm one &&
		git update-ref refs/remotes/origin/main HEAD && sed -i 's/for: 1h/for: 2h/' flows/create.yaml && git commit -qam two`); err != nil {
		t.Fatal(err, out)
	}
	for _, name := range []string{"Lint", "Test", "Plan what has changed"} {
		if out, err := step(name); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	summary, err := os.ReadFile(filepath.Join(dir, "summary"))
	for _, want := range []string{"### flows/create.yaml\n", "~ Settle  wait: for 1h0m0s → for 2h0m0s", "3  Server    run"} {
		if err != nil || !strings.Contains(string(summary), want) {
			t.Errorf("the summary lacks %q (%v):\n%s", want, err, summary)
		}
	}

	write("flows/create.yaml", "flowName: Create\nsteps:\n- stepName: Volume\n  uses: exce\n")
	out, err := step("Lint")
	if err == nil {
		t.Error("a wrong flow passes")
	}
	var m struct {
		ProblemMatcher []struct {
			Pattern []struct {
				Regexp                                string
				File, Line, Column, Severity, Message int
			}
		}
	}
	text, err = os.ReadFile("../../examples/github-actions/pawl-matcher.json")
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := m.ProblemMatcher[0].Pattern[0]
	found := regexp.MustCompile("(?m)" + p.Regexp).FindStringSubmatch(out)
	if found == nil || found[p.File] != "flows/create.yaml" || found[p.Line] != "4" || found[p.Column] != "9" || !strings.Contains(found[p.Message], "exce") {
		t.Errorf("the matcher finds %q in\n%s", found, out)
	}
}
